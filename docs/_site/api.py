"""The API reference: a page for each part of the library, with its exported names."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import tidegate
from docs._site.examples import fenced

PARTS = (
    "tidegate",
    "windows",
    "joins",
    "patterns",
    "aggregates",
    "sketches",
    "transform",
    "event_time",
    "changelogs",
    "formats",
    "sources",
    "sinks",
    "stores",
    "views",
    "replication",
    "jobs",
    "testing",
    "errors",
)


RANK = "---\nsearch:\n  boost: 0.1\n---\n"
"""The search lists guides before the names that have a word of the question."""
FILES = {"errors": "exceptions"}
"""The names of pages that differ from their part: reference/errors.md is written by authors."""


def pages() -> dict[str, str]:
    """Return the text of each page by its path below docs/."""
    return {f"reference/{FILES.get(part, part)}.md": page(part) for part in PARTS}


def page(part: str) -> str:
    """Return the page of a part: its purpose, a table of its names, and their docstrings.

    Functions precede classes, because most programs call the functions.
    """
    module = tidegate if part == "tidegate" else importlib.import_module(f"tidegate.{part}")
    names = sorted(exported(module), key=lambda name: not is_function(getattr(module, name)))
    rows = "\n".join(
        f"| [`{name}`][{home(module, name)}] | {purpose} |"
        for name in names
        if (purpose := summary(getattr(module, name)))
    )
    entries = "\n\n".join(f"::: {home(module, name)}" for name in names)
    purpose_of_part = fenced(inspect.getdoc(module) or "")
    table = f"| name | purpose |\n|---|---|\n{rows}"
    return f"{RANK}# {module.__name__}\n\n{purpose_of_part}\n\n{table}\n\n{entries}\n"


def is_function(value: object) -> bool:
    """Return whether a value is a function, or a wrapper of one, such as a cache."""
    return inspect.isfunction(inspect.unwrap(value) if callable(value) else value)


def summary(value: object) -> str:
    """Return the first paragraph of the docstring of a class or function, or an empty text."""
    if not (inspect.isclass(value) or is_function(value)):
        return ""
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    # The docstring of a dataclass without one is its signature.
    is_signature = text.startswith(f"{getattr(value, '__name__', '')}(")
    return "" if is_signature else " ".join(text.split()).replace("|", "\\|")


def exported(module: ModuleType) -> list[str]:
    """Return what a module exports: `__all__`, or what it defines without an underscore."""
    named = getattr(module, "__all__", None)
    if module is tidegate:
        return [name for name in tidegate.__all__ if not _has_another_page(name)]
    if named is not None:
        return list(named)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _has_another_page(name: str) -> bool:
    """Return whether a name of the top level is a package, or is on the page of one."""
    parts = [importlib.import_module(f"tidegate.{part}") for part in PARTS if part != "tidegate"]
    return isinstance(getattr(tidegate, name), ModuleType) or any(
        name in exported(module) for module in parts
    )


def home(module: ModuleType, name: str) -> str:
    """Return where a name is defined: a function often has the name of its module."""
    value = getattr(module, name)
    place = getattr(value, "__module__", None)
    if place is None or not place.startswith("tidegate."):
        return f"{module.__name__}.{name}"
    return f"{place}.{name}"
