"""The merged configuration as a table: each key, its value with secrets masked, and where it came
from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from rich.table import Table

from .load import OPEN_ENDED, Loaded, Path_
from .secrets import masked


def table(loaded: Loaded[Any]) -> Table:
    """Return the table; a key that nobody gave shows the source "default"."""
    shown = Table("key", "value", "source", box=None, pad_edge=False)
    for path, value in rows(loaded.config):
        key = ".".join(path)
        shown.add_row(key, masked(key, value), loaded.sources.get(path, "default"))
    return shown


def rows(config: BaseModel) -> Iterator[tuple[Path_, str]]:
    """Return each key with its value as text, section by section."""
    yield from _walk(config.model_dump(mode="json", by_alias=True), ())


def _walk(tree: Mapping[str, Any], above: Path_) -> Iterator[tuple[Path_, str]]:
    for key, value in tree.items():
        path = (*above, key)
        if isinstance(value, dict) and (len(path) == 1 or path in OPEN_ENDED):
            yield from _walk(value, path)
        else:
            yield (
                path,
                "-"
                if value is None
                else ", ".join(map(str, value))
                if isinstance(value, list)
                else str(value),
            )
