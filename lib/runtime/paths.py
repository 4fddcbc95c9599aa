"""Where things lie on disk: the project's root and the jars that `make setup` fetched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ..errors import SetupError

JARS_VARIABLE = "TIDEGATE_JARS"


def project_root() -> Path:
    """Give the folder that holds `lib`; in an installed wheel it holds no `conf`."""
    return Path(__file__).resolve().parents[2]


def conf(name: str) -> Path:
    """Give a file of the project's `conf` folder, or raise a SetupError where there is none."""
    path = project_root() / "conf" / name
    if not path.is_file():
        raise SetupError(f"{path} is missing.", hint="run from a checkout of tidegate: the wheel holds no conf folder.")
    return path


def jars(kind: Literal["spark", "broker"]) -> list[Path]:
    """Give the jars for Spark's class path, or those of the embedded broker.

    They lie in `.jars/<kind>` beside `lib`; the environment variable TIDEGATE_JARS names another place of `.jars`.
    """
    home = Path(os.environ.get(JARS_VARIABLE) or project_root() / ".jars")
    found = sorted((home / kind).glob("*.jar"))
    if not found:
        raise SetupError(
            f"there are no jars in {home / kind}.",
            f"the jars that jars.lock names, in .jars or in the folder named by {JARS_VARIABLE}.",
            "make setup",
        )
    return found
