"""The API reference: a page for each part of the library, with all that the part exports."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

PARTS = (
    "windows",
    "joins",
    "patterns",
    "aggregates",
    "sketches",
    "transform",
    "eventtime",
    "changes",
    "formats",
    "sources",
    "sinks",
    "stores",
    "views",
    "runtime",
    "jobs",
    "testing",
    "errors",
)


def pages() -> dict[str, str]:
    """Return the text of each page by its place below docs/."""
    return {f"reference/{part}.md": page(part) for part in PARTS}


def page(part: str) -> str:
    """Return a part's page: what the part is for, and each of its names from its docstring."""
    module = importlib.import_module(f"tidegate.{part}")
    entries = "\n\n".join(f"::: {home(module, name)}" for name in exported(module))
    return f"# tidegate.{part}\n\n{inspect.getdoc(module)}\n\n{entries}\n"


def exported(module: ModuleType) -> list[str]:
    """Return what a module exports: `__all__`, or what it defines without an underscore."""
    named = getattr(module, "__all__", None)
    if named is not None:
        return list(named)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def home(module: ModuleType, name: str) -> str:
    """Return where a name is defined: a function often bears the name of its module."""
    value = getattr(module, name)
    place = getattr(value, "__module__", None)
    if place is None or not place.startswith("tidegate."):
        return f"{module.__name__}.{name}"
    return f"{place}.{name}"
