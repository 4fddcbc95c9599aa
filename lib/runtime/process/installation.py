"""Where things lie on this machine: the project, its conf folder, the jars, Java.

The environment is read here.
"""

from __future__ import annotations

import os
import shutil
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from ...errors import SetupError
from .fetching import fetched, kept

JARS_VARIABLE = "TIDEGATE_JARS"
_LOCK = "jars.lock"


def project_root() -> Path:
    """Return the folder that holds the package: a checkout, or site-packages of a wheel."""
    return Path(__file__).resolve().parents[3]


def conf(name: str) -> str:
    """Return the text of a file of `conf`: the checkout's, or the copy in a wheel or zip."""
    return conf_file(name).read_text(encoding="utf-8")


def conf_file(name: str) -> Traversable:
    """Return a file of `conf`, which in a zip has no path of its own.

    Raises SetupError.
    """
    for folder in (files("tidegate").joinpath("..", "conf"), files("tidegate").joinpath("conf")):
        file = folder.joinpath(name)
        if file.is_file():
            return file
    raise SetupError(
        f"conf/{name} is missing.", hint="run from a checkout of tidegate, or install its wheel."
    )


def jars(kind: Literal["spark", "broker"]) -> list[Path]:
    """Return the jars for Spark's class path, or those of the embedded broker.

    They lie in `.jars/<kind>` of a checkout; the environment variable TIDEGATE_JARS names another
    place of `.jars`. An installed package fetches them once, into the user's cache.
    """
    home = _given_home() or fetched(conf("ivy.xml"), conf(_LOCK), java())
    found = sorted((home / kind).glob("*.jar"))
    if not found:
        raise SetupError(
            f"there are no jars in {home / kind}.",
            f"the jars that jars.lock names, in .jars or in the folder named by {JARS_VARIABLE}.",
            "make setup",
        )
    return found


def jars_home() -> Path:
    """Return the folder that has the jars; the user's cache may not have them yet."""
    return _given_home() or kept(conf("ivy.xml"), conf(_LOCK))


def _given_home() -> Path | None:
    """Return the folder of the jars that is named, or a checkout's; None of a package."""
    named = os.environ.get(JARS_VARIABLE)
    in_checkout = (project_root() / _LOCK).exists()
    return Path(named or project_root() / ".jars") if named or in_checkout else None


def locked_jars() -> dict[str, str]:
    """Return what jars.lock holds: the SHA-256 of each jar by its path under `.jars`."""
    beside = project_root() / _LOCK
    text = beside.read_text(encoding="utf-8") if beside.is_file() else conf(_LOCK)
    return {name: digest for digest, name in (line.split() for line in text.splitlines() if line)}


def java() -> str:
    """Return the path of Java: that of JAVA_HOME, or else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if found is None:
        place = f"JAVA_HOME ({home})" if home else "the PATH"
        raise SetupError(
            f"there is no Java on {place}.", "Java 17 or 21.", "make setup says how to install it."
        )
    return found


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with some variables set, for a process to be started."""
    return {**os.environ, **more}
