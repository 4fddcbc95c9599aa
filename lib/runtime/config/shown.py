"""The merged configuration as a table: each key, its value with secrets masked, and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from rich.table import Table

from .faults import OPEN_ENDED, KeyPath
from .load import Loaded
from .secrets import masked

LAST = ("output", "limits", "upkeep", "trigger", "spark", "metrics")
"""The sections that are shown after those of the job itself."""


def table(loaded: Loaded[Any]) -> Table:
    """Return the table; a key that nobody gave shows the source "default"."""
    shown = Table("key", "value", "source", box=None, pad_edge=False)
    for path, value in rows(loaded.config):
        key = ".".join(path)
        shown.add_row(key, masked(key, value), loaded.sources.get(path, "default"))
    return shown


def rows(config: BaseModel) -> Iterator[tuple[KeyPath, str]]:
    """Return each key with its value as text, section by section."""
    tree = config.model_dump(mode="json", by_alias=True)
    ordered = {key: tree[key] for key in (*(key for key in tree if key not in LAST), *LAST)}
    yield from _walk(ordered, ())


def _walk(tree: Mapping[str, Any], above: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for key, value in tree.items():
        path = (*above, key)
        if isinstance(value, dict) and (len(path) == 1 or path in OPEN_ENDED):
            yield from _walk(value, path)
        else:
            yield path, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
