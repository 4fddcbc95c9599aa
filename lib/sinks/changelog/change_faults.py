"""Changes that a current table or a history table cannot store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...changelogs.change_schema import (
    NO_PREVIOUS_VALUE,
    ROW_OPS,
    current_row,
    has_unavailable,
    is_unavailable,
    row_names,
)
from ...columns import Fault
from ...delta.delta_table import read_table
from ...delta.row_constraints import value_faults
from ...delta.table_layout import TableLayout
from ...jvm import with_short_plan
from ..base import AcceptedRows

_PLACE = "__tidegate_place"


def change_faults(changes: DataFrame, path: str, layout: TableLayout) -> list[Fault]:
    """Return the faults of the row that each change leaves.

    The row of a deletion has nulls except in its key, so NOT NULL is not checked for it, nor for a
    value that was not sent.
    """
    values = dict(zip(row_names(changes), current_row(changes), strict=True))
    texts, nulls = value_faults(changes, path, layout, values)
    is_row = F.col("op").isin(*ROW_OPS)
    return [
        *texts,
        *[
            (is_row & ~is_unavailable(name) & condition, reason)
            for name, (condition, reason) in nulls.items()
        ],
    ]


@contextmanager
def split_incomplete(
    frames: Mapping[str, DataFrame],
    path: str,
    find: Callable[[DataFrame, DataFrame | None], DataFrame | None],
) -> Iterator[AcceptedRows]:
    """Yield the changes of a batch, and separately those without a row to take values from.

    path: the path of the table.
    find: returns the latter, of a batch that has unavailable values and of the rows of the table;
        None if there are none for certain.
    """
    ((name, changes),) = frames.items()
    if "unavailable" not in changes.columns or changes.where(has_unavailable()).isEmpty():
        yield AcceptedRows(frames)
        return
    found = find(changes, read_table(changes.sparkSession, path))
    if found is None:
        yield AcceptedRows(frames)
        return
    with ExitStack() as persisted:
        incomplete = with_short_plan(found).persist()
        persisted.callback(incomplete.unpersist)
        if incomplete.isEmpty():
            yield AcceptedRows(frames)
            return
        place = F.struct("position.topic", "position.partition", "position.offset")
        places = F.broadcast(incomplete.select(place.alias(_PLACE)))
        accepted = changes.join(places, place == F.col(_PLACE), "left_anti").persist()
        persisted.callback(accepted.unpersist)
        names = F.array_join("unavailable", ", ")
        reason = F.concat(F.lit(f"{NO_PREVIOUS_VALUE}: "), names)
        yield AcceptedRows({name: accepted}, [(incomplete, reason)])
