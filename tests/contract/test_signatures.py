"""The public API, pinned in tests/golden/signatures.txt: a change there is a change for users.

`python -m tests.contract.test_signatures` writes the file again after an intended change.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import tidegate

GOLDEN = Path(__file__).parents[1] / "golden" / "signatures.txt"
PACKAGES = (
    "aggregates",
    "changelogs",
    "errors",
    "event_time",
    "formats",
    "joins",
    "patterns",
    "sinks",
    "sketches",
    "sources",
    "stores",
    "testing",
    "transform",
    "views",
    "windows",
)


def public_api() -> list[str]:
    """Return one line for each public name: where it is exported, and its signature."""
    names = {f"tidegate.{name}": getattr(tidegate, name) for name in tidegate.__all__}
    for package in PACKAGES:
        module = importlib.import_module(f"tidegate.{package}")
        exported = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        names |= {f"tidegate.{package}.{name}": getattr(module, name) for name in exported}
    return sorted(
        re.sub(r" at 0x[0-9a-f]+", "", f"{name}{inspect.signature(value)}")
        for name, value in names.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and "__init__" in vars(value))
    )


def test_public_signatures_are_as_pinned() -> None:
    assert public_api() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_every_public_name_can_be_imported_from_the_top_level() -> None:
    assert {name for name in tidegate.__all__ if not hasattr(tidegate, name)} == set()
    assert set(tidegate.__all__) <= set(dir(tidegate))


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(public_api()) + "\n", encoding="utf-8")
