"""The latest change of each key (SCD type 1), and changes as upsert records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .change_order import in_log_order, replaces, with_inherited_source
from .change_schema import (
    TOMBSTONE,
    TRUNCATE,
    current_row,
    has_key,
    key_names,
    removes_row,
    row_names,
    with_deletes_of_old_keys,
)

UNAVAILABLE = "__tidegate_unavailable"
"""The columns for which the changes of a batch have no value."""
IS_TOMBSTONE = "__tidegate_is_tombstone"
"""Whether the last change is a tombstone, which has no effect on a deleted row."""
FALLBACK = "__tidegate_fallback"
"""The row to store where the last change turns out to be older than the row of the table."""
STATE_COLUMNS = (UNAVAILABLE, IS_TOMBSTONE, FALLBACK)
"""The columns that `latest_states` adds to those of `latest_changes`."""
_STATE_FIELDS = ("position", "event_time", "op", "after", "unavailable")
_CHANGES = "__tidegate_changes"
_TRUNCATES = "__tidegate_truncates"
_LAST = "__tidegate_last"


def latest_changes(changes: DataFrame) -> DataFrame:
    """Return the row of each key after its latest change, in log order.

    Offsets order the changes of a partition; see `tidegate.formats.debezium_format` for changes of
    several partitions and for changes that are sent again. A deleted row has only its key, and
    `deleted` is true. A truncate deletes all keys before it. It also adds a row with a null key,
    since it applies to keys that arrive later. An update that changes the key deletes the old key.
    A value that was not sent is that of the change before; null if the batch has none.

    State: none. Changes with a null in the key are dropped; the formats send them to the dead
    letters.

    Args:
        changes: the rows of `debezium_format` or `maxwell_format`, as a batch or a micro-batch.

    Returns:
        The columns of the table, `changed_at` (the source time), `deleted` and `position`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium_format
    >>> customers = debezium_format("id INT, name STRING", key="id")
    >>> latest_changes(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'changed_at', 'deleted', 'position']
    """
    return latest_states(changes).drop(*STATE_COLUMNS)


def latest_states(changes: DataFrame) -> DataFrame:
    """Return the rows of `latest_changes` with STATE_COLUMNS."""
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    relevant = with_deletes_of_old_keys(changes).where(has_key(changes) | is_truncate)
    change = F.struct("position", "event_time", "op", "after", "unavailable")
    by_key = relevant.groupBy("key").agg(F.collect_list(change).alias(_CHANGES))
    truncates = relevant.where(is_truncate).agg(F.collect_list(change).alias(_TRUNCATES))
    own, of_all = F.col(_CHANGES), F.col(_TRUNCATES)
    is_affected = F.col("key").isNotNull() & (F.size(of_all) > 0)
    affecting = F.when(is_affected, F.concat(own, of_all)).otherwise(own)
    names = row_names(changes)
    state = _first_state(F.lit(None).cast(by_key.schema[_CHANGES].dataType.elementType))  # type: ignore[attr-defined]
    last = F.aggregate(
        in_log_order(affecting),
        F.when(F.lit(False), state),
        lambda stored, later: _next_state(stored, later, names),
    )
    with_truncates = by_key.crossJoin(F.broadcast(truncates))
    return _table_rows(with_truncates.select("key", last.alias(_LAST)), key_names(changes), names)


def _first_state(change: Column) -> Column:
    """Return the state of a key after its first change in the batch."""
    fields = [change[name].alias(name) for name in _STATE_FIELDS]
    nothing = F.when(F.lit(False), F.struct(*fields))
    has_source = change["position"]["source"].isNotNull()
    return F.struct(*fields, has_source.alias("has_source"), nothing.alias("fallback"))


def _next_state(stored: Column, change: Column, names: list[str]) -> Column:
    """Return the state of a key after a further change; null before the first one.

    `fallback` is the state after the last snapshot row or tombstone, which have no position in the
    log of the database: the changes after it may turn out to be older than the row of the table.
    """
    is_repeated_removal = (change["op"] == F.lit(TOMBSTONE)) & removes_row(stored["op"])
    is_newer = replaces(
        change["position"], change["event_time"], stored["position"], stored["event_time"]
    )
    has_source = change["position"]["source"].isNotNull()
    before = F.struct(*[stored[name].alias(name) for name in _STATE_FIELDS])
    own_fallback = F.when(stored["has_source"], stored["fallback"]).otherwise(before)
    after, unavailable = _filled(stored, change, names)
    following = F.struct(
        with_inherited_source(change["position"], stored["position"]).alias("position"),
        change["event_time"].alias("event_time"),
        change["op"].alias("op"),
        after.alias("after"),
        unavailable.alias("unavailable"),
        has_source.alias("has_source"),
        F.when(has_source, own_fallback).alias("fallback"),
    )
    return (
        F.when(stored.isNull(), _first_state(change))
        .when(is_newer & ~is_repeated_removal, following)
        .otherwise(stored)
    )


def _filled(stored: Column, change: Column, names: list[str]) -> tuple[Column, Column]:
    """Return the row after a change, and the columns without a value.

    Values that were not sent are those of the stored row.
    """
    nothing = F.array().cast("array<string>")
    missing = F.coalesce(change["unavailable"], nothing)
    is_filled = ~removes_row(stored["op"]) & (F.size(missing) > 0)
    values = [
        F.when(F.array_contains(missing, name), stored["after"][name])
        .otherwise(change["after"][name])
        .alias(name)
        for name in names
    ]
    still_missing = F.array_intersect(missing, F.coalesce(stored["unavailable"], nothing))
    after = F.when(is_filled, F.struct(*values)).otherwise(change["after"])
    return after, F.when(is_filled, still_missing).otherwise(missing)


def _table_rows(last_changes: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """Return the row of each key after its last change."""
    state = F.col(_LAST)
    last = _state_columns(state, F.col("key"), keys, names)
    fallback = _state_columns(state["fallback"], F.col("key"), keys, names)
    has_fallback = state["fallback"].isNotNull()
    return last_changes.select(*last, F.when(has_fallback, F.struct(*fallback)).alias(FALLBACK))


def _state_columns(state: Column, key: Column, keys: list[str], names: list[str]) -> list[Column]:
    is_deleted = removes_row(state["op"])

    def value(name: str) -> Column:
        if name in keys:
            return key.getField(name).alias(name)
        return F.when(~is_deleted, state["after"].getField(name)).alias(name)

    return [
        *map(value, names),
        state["event_time"].alias("changed_at"),
        is_deleted.alias("deleted"),
        state["position"].alias("position"),
        state["unavailable"].alias(UNAVAILABLE),
        (state["op"] == F.lit(TOMBSTONE)).alias(IS_TOMBSTONE),
    ]


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
        F.coalesce(
            F.array_join(F.col("position.source").cast("array<string>"), "."),
            F.col("position.offset").cast("string"),
        ).alias("position"),
    )
