"""Changes as rows: what a keyed topic tells of each change."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .change import key_names, no_row, row_names


def records(changes: DataFrame) -> DataFrame:
    """Return each change as the row after it, for a keyed topic with tombstones.

    `Publish(..., key="id", deleted="deleted", headers=["op", "position"])` sends them, and
    `tidegate.formats.keyed_json(..., time="changed_at")` reads them again.

    Args:
        changes: a batch of changes with keys: no truncates.

    Returns:
        the table's columns (those of the key alone where the row was deleted), `changed_at` (the
        change's event time), `deleted`, `op`, and `position` as text, its parts with dots between.

    Raises:
        ColumnError, ColumnTypeError: at the call.
    """
    keys = key_names(changes)

    def value(name: str) -> Column:
        part = F.col("key") if name in keys else F.col("after")
        return part.getField(name).alias(name)

    return changes.select(
        *map(value, row_names(changes)),
        F.col("event_time").alias("changed_at"),
        no_row(F.col("op")).alias("deleted"),
        "op",
        F.array_join(F.col("position").cast("array<string>"), ".").alias("position"),
    )
