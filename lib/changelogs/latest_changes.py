"""The latest change of each key (SCD type 1), and changes as upsert records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .change_schema import (
    TRUNCATE,
    current_row,
    has_key,
    key_names,
    removes_row,
    row_names,
    with_deletes_of_old_keys,
)

_LAST = "__tidegate_last"
_TOMBSTONE = "__tidegate_tombstone"
_TRUNCATE = "__tidegate_truncate"


def latest_changes(changes: DataFrame) -> DataFrame:
    """Return the row of each key after its latest change, in log order.

    The change with the highest position wins; among changes at one position, such as redelivered
    ones, the change with the highest topic offset. A deleted row has only its key, and `deleted`
    is true. A truncate deletes all keys with lower positions. It also adds a row with a null key,
    since it applies to keys that arrive later. An update that changes the key deletes the old key.

    A tombstone without a position (position="source") is ordered directly after the latest earlier
    change of its key. That change may be only in the table: for a key with only tombstones,
    `position` is that of the last truncate or null, and `tidegate.sinks.CurrentTable` compares the
    tombstone with the table.

    State: none. Changes with a null in the key are dropped; the formats send them to the dead
    letters.

    Args:
        changes: the rows of `debezium_format` or `maxwell_format`, as a batch or a micro-batch.

    Returns:
        The columns of the table, `changed_at` (the source time), `deleted`, `position`, and
        `tombstone`, the time of the last tombstone of the key.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium_format
    >>> customers = debezium_format("id INT, name STRING", key="id")
    >>> latest_changes(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'changed_at', 'deleted', 'position', 'tombstone']
    """
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    relevant_changes = with_deletes_of_old_keys(changes).where(has_key(changes) | is_truncate)
    has_position = F.col("position").isNotNull()
    log_order = F.when(has_position, F.struct("position", "place"))
    last_row = F.struct("position", "place", "event_time", "op", "after")
    last = F.max_by(last_row, log_order).alias(_LAST)
    tombstone = F.max(F.when(~has_position, F.struct("place", "event_time"))).alias(_TOMBSTONE)
    last_by_key = relevant_changes.groupBy("key").agg(last, tombstone)
    truncate = F.struct("position", "event_time")
    last_truncate = relevant_changes.where(is_truncate).agg(F.max(truncate).alias(_TRUNCATE))
    with_last_truncate = last_by_key.crossJoin(F.broadcast(last_truncate))
    return _table_rows(with_last_truncate, key_names(changes), row_names(changes))


def _table_rows(last_changes: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """Return the row of each key after its last change, tombstone and truncate."""
    last = F.col(_LAST)
    tombstone = F.col(_TOMBSTONE)
    truncate = F.col(_TRUNCATE)
    # A key is deleted by a later tombstone, a later truncate, or its last change.
    by_tombstone = F.coalesce(tombstone["place"] > last["place"], last.isNull())
    by_truncate = F.coalesce(last["position"] < truncate["position"], F.lit(False))
    by_itself = F.coalesce(removes_row(last["op"]), F.lit(False))
    is_deleted = by_tombstone | by_truncate | by_itself

    def value(name: str) -> Column:
        if name in keys:
            return F.col("key").getField(name).alias(name)
        return F.when(~is_deleted, last["after"].getField(name)).alias(name)

    # A tombstone after a delete is redundant: the time of the delete applies.
    changed_at = (
        F.when(by_truncate, truncate["event_time"])
        .when(by_tombstone & ~by_itself, tombstone["event_time"])
        .otherwise(last["event_time"])
    )
    uses_truncate_position = by_truncate | last.isNull()
    position = F.when(uses_truncate_position, truncate["position"]).otherwise(last["position"])
    return last_changes.select(
        *map(value, names),
        changed_at.alias("changed_at"),
        is_deleted.alias("deleted"),
        position.alias("position"),
        tombstone["event_time"].alias("tombstone"),
    )


def to_upsert_records(changes: DataFrame) -> DataFrame:
    """Return each change as an upsert record: the row after the change, for a compacted topic.

    `KafkaSink(..., key="id", deleted="deleted", headers=["op", "position"])` writes the records,
    and `tidegate.formats.upsert_json_format(..., time="changed_at")` reads them.

    Args:
        changes: a batch of changes with keys, without truncates.

    Returns:
        The columns of the table (null except for the key after a delete), `changed_at` (the event
        time of the change), `deleted`, `op`, and `position` as text with dots between its parts.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium_format
    >>> customers = debezium_format("id INT, name STRING", key="id")
    >>> to_upsert_records(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'changed_at', 'deleted', 'op', 'position']
    """
    return changes.select(
        *current_row(changes),
        F.col("event_time").alias("changed_at"),
        removes_row(F.col("op")).alias("deleted"),
        "op",
        F.array_join(F.col("position").cast("array<string>"), ".").alias("position"),
    )
