"""What is asked of a sink's tables when the sink is made: a path, a step, a layout."""

from __future__ import annotations

from collections.abc import Sequence

from ..commit.layout import ANY, Layout
from ..errors import ArgumentError, ColumnTypeError


def require_target(
    path: object, step: object, layout: object = ANY, changing: object = None
) -> None:
    """Refuse a path or a step that is no text, and what is no layout.

    changing: the sink, where it changes rows that its table has.

    Raises ArgumentError and ColumnTypeError.
    """
    for what, value, example in (("path", path, "/tables/views"), ("step", step, "append")):
        if not isinstance(value, str):
            raise ColumnTypeError(
                f"{what} is {value!r}, a {type(value).__name__}.", "text.", f'"{example}"'
            )
        if not value.strip():
            raise ArgumentError(f"{what} is {value!r}.", "text that is not empty.", f'"{example}"')
    if not isinstance(layout, Layout):
        raise ColumnTypeError(
            f"layout is {layout!r}, a {type(layout).__name__}.",
            "a Layout.",
            'Layout(partition_by=["date"])',
        )
    if changing is not None:
        layout.require_rewritable(type(changing).__name__)


def require_apart(tables: Sequence[tuple[str, str]]) -> None:
    """Refuse a sink of which two tables have one path."""
    paths = [path for path, _ in tables]
    if len(set(paths)) < len(paths):
        raise ArgumentError(f"the tables are {', '.join(paths)}.", "a path of its own for each.")
