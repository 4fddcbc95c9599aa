"""What is asked of a sink's table when the sink is made: a path, a step, columns to part it by."""

from __future__ import annotations

from collections.abc import Sequence

from ..columns import names
from ..errors import ArgumentError, ColumnTypeError


def require_target(path: object, step: object, partition_by: Sequence[str] = ()) -> None:
    """Refuse a path or a step that is no text, and columns that are no list of names.

    Raises ArgumentError, ColumnTypeError and ColumnError.
    """
    for what, value, example in (("path", path, "/tables/views"), ("step", step, "append")):
        if not isinstance(value, str):
            raise ColumnTypeError(
                f"{what} is {value!r}, a {type(value).__name__}.", "text.", f'"{example}"'
            )
        if not value.strip():
            raise ArgumentError(f"{what} is {value!r}.", "text that is not empty.", f'"{example}"')
    if isinstance(partition_by, str):
        raise ColumnTypeError(
            f"partition_by is {partition_by!r}.", "a list of columns.", f"[{partition_by!r}]"
        )
    names(partition_by, "partition_by")
