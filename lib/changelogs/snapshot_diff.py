"""Changes from table snapshots: the difference of two, and a snapshot followed by its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted_column, require_columns, require_zoned_time
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from .change_schema import (
    CHANGE_COLUMNS,
    CREATE,
    DELETE,
    POSITION_TYPE,
    SNAPSHOT,
    UPDATE,
    is_before,
    key_names,
    row_type,
)

IS_OLD = "__tidegate_is_old"
"""Whether a row is the old version, before its change."""

_BEFORE = "__tidegate_before"
_AFTER = "__tidegate_after"
_OLD_COUNT = "__tidegate_old_count"
_NEW_COUNT = "__tidegate_new_count"
_POSITION = "__tidegate_position"
_EVENT_TIME = "__tidegate_event_time"
NOT_UNIQUE = "is the key of several rows, or is null"


def diff_snapshots(
    old: DataFrame,
    new: DataFrame,
    *,
    key: str | Sequence[str],
    position: Sequence[int],
    snapshot_time: datetime,
    source_name: str = "snapshot",
) -> DataFrame:
    """Return the changes that transform one snapshot of a table into another.

    This derives a changelog from a source that has only snapshots: `history_rows` of the changes
    between consecutive snapshots is the history of the table. Changes that were reverted between
    two snapshots are not visible. A row that is equal in both snapshots is not a change.

    Cost: both snapshots are read and shuffled by key.

    Args:
        old: a batch, the older snapshot.
        new: a batch with the same columns, without maps.
        key: the key columns; a key has one row per snapshot.
        position: orders these changes after those of older snapshots, such as `[7]`.
        snapshot_time: the time of the newer snapshot, with a time zone; the `event_time` of its
            changes.
        source_name: the value of `position.topic`, such as the name of the table.

    Returns:
        Changes with `op` create, update or delete, in the schema of the changelog formats: input
        for `latest_changes`, `history_rows`, `CurrentTable` and `HistoryTable`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. The query fails for a null or
            repeated key.

    >>> old = spark.sql("SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b'")
    >>> new = spark.sql("SELECT 1 AS id, 'a' AS name UNION ALL SELECT 3, 'c'")
    >>> time = datetime.fromisoformat("2026-01-02T00:00:00Z")
    >>> changes = diff_snapshots(old, new, key="id", position=[2], snapshot_time=time)
    >>> sorted((row.key.id, row.op) for row in changes.collect())
    [(2, 'delete'), (3, 'create')]
    """
    require_columns(old, [], "old")
    require_columns(new, [], "new")
    columns, keys = row_type(new.schema, key)
    _require_same_columns(old, columns)
    for label, frame in (("old", old), ("new", new)):
        if frame.isStreaming:
            raise ArgumentError(f"invalid {label}: a stream", "a batch")
    position_parts = require_integers(position, "position")
    require_zoned_time(snapshot_time, "snapshot_time")
    new_rows = new.withColumn(IS_OLD, F.lit(False))
    tagged_rows = old.withColumn(IS_OLD, F.lit(True)).unionByName(new_rows)
    position_array = F.array(*map(F.lit, position_parts))
    positioned_rows = with_position(tagged_rows, position_array, F.lit(snapshot_time), source_name)
    return net_by_key(as_updates(positioned_rows, columns, keys), keys)


def as_updates(rows: DataFrame, columns: StructType, keys: Sequence[str]) -> DataFrame:
    """Return the update of each key at each position: old and new row, and the number of each.

    rows: rows with IS_OLD and the columns of `with_position`.
    """
    row = F.struct(*map(quoted_column, columns.names))
    is_old = quoted_column(IS_OLD)
    key_columns = [quoted_column(name).alias(name) for name in keys]
    before_and_after = rows.select(
        F.struct(*key_columns).alias("key"),
        F.when(is_old, row).alias(_BEFORE),
        F.when(~is_old, row).alias(_AFTER),
        _POSITION, _EVENT_TIME,
    )  # fmt: skip
    return before_and_after.groupBy("key", _POSITION, _EVENT_TIME).agg(
        F.first(_BEFORE, ignorenulls=True).alias(_BEFORE),
        F.first(_AFTER, ignorenulls=True).alias(_AFTER),
        F.count(_BEFORE).alias(_OLD_COUNT),
        F.count(_AFTER).alias(_NEW_COUNT),
    )


def with_position(
    rows: DataFrame, position: Column, event_time: Column, source_name: str
) -> DataFrame:
    """Add the position and the event time of the commit of the rows.

    position: an array of numbers; the last one is the offset.
    """
    in_topic = (F.lit(source_name), F.lit(0), F.element_at(position, -1), event_time)
    values = (*in_topic, None, position, event_time)
    fields = [
        (F.lit(None) if value is None else value).cast(field.dataType).alias(field.name)
        for value, field in zip(values, POSITION_TYPE, strict=True)
    ]
    return rows.withColumns({_POSITION: F.struct(*fields), _EVENT_TIME: event_time})


def net_by_key(updates: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the net change of each key, from before its first update to after its last.

    A key whose row is equal before and after has no change.
    """
    first, last = F.col("first"), F.col("last")
    before, after = first[_BEFORE], last[_AFTER]
    has_null_key = reduce(or_, [F.col("key")[name].isNull() for name in keys])
    # Each update must find the number of rows that the previous updates left.
    is_inconsistent = first[_OLD_COUNT] + F.col("gain") != last[_NEW_COUNT]
    is_faulty = (F.col("most") > 1) | is_inconsistent | has_null_key
    checked_rows = raise_if_not_unique(_first_and_last_update(updates), is_faulty)
    op = F.when(before.isNull(), CREATE).when(after.isNull(), DELETE).otherwise(UPDATE)
    changed = checked_rows.where(~before.eqNullSafe(after))
    commit = (last[_POSITION], last[_EVENT_TIME])
    no_names = F.lit(None).cast("array<string>")
    values = zip(CHANGE_COLUMNS, (op, F.col("key"), before, after, no_names, *commit), strict=True)
    return changed.select(*[value.alias(name) for name, value in values])


def _first_and_last_update(updates: DataFrame) -> DataFrame:
    """Return the first and last update of each key, its most rows at once, and its net gain."""
    order = F.col(_POSITION)["source"]
    first = F.min_by(F.struct(_BEFORE, _OLD_COUNT), order)
    last = F.max_by(F.struct(_AFTER, _NEW_COUNT, _POSITION, _EVENT_TIME), order)
    return updates.groupBy("key").agg(
        first.alias("first"),
        last.alias("last"),
        F.max(F.greatest(_OLD_COUNT, _NEW_COUNT)).alias("most"),
        F.sum(F.col(_NEW_COUNT) - F.col(_OLD_COUNT)).alias("gain"),
    )


def raise_if_not_unique(rows: DataFrame, is_faulty: Column) -> DataFrame:
    """Return the rows; the query fails for a key that is not unique."""
    message = F.concat(F.to_json("key"), F.lit(f" {NOT_UNIQUE}"))
    refuse = F.raise_error(message).cast("boolean")
    return rows.where(F.when(is_faulty, refuse).otherwise(F.lit(True)))


def _require_same_columns(old: DataFrame, columns: StructType) -> None:
    old_types = {field.name: field.dataType.simpleString() for field in old.schema}
    new_types = {field.name: field.dataType.simpleString() for field in columns}
    if old_types.keys() != new_types.keys():
        raise ColumnError(
            f"invalid columns of old: {', '.join(old_types)}",
            f"the columns of new: {', '.join(new_types)}",
            "select the common columns of both",
        )
    for name, new_type in new_types.items():
        if old_types[name] != new_type:
            raise ColumnTypeError(
                f"invalid type of column {name!r} in old: {old_types[name]}",
                f"{new_type}, as in new",
                f'withColumn({name!r}, F.col({name!r}).cast("{new_type}"))',
            )


def require_integers(value: Sequence[int], label: str) -> list[int]:
    """Return a position as a list; raise unless it is a non-empty sequence of integers."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not value
        or not all(isinstance(part, int) and not isinstance(part, bool) for part in value)
    ):
        raise ArgumentError(f"invalid {label}: {value!r}", "a list of integers", f"{label}=[7]")
    return list(value)


def snapshot_as_changes(
    rows: DataFrame,
    *,
    key: str | Sequence[str],
    position: Sequence[int],
    snapshot_time: datetime,
    source_name: str = "snapshot",
) -> DataFrame:
    """Return the rows of a snapshot as changes with op = snapshot.

    `latest_changes`, `history_rows`, `CurrentTable` and `HistoryTable` process them like the
    snapshot rows of Debezium (its `op` "r"). Changes after the position of the snapshot follow
    them.

    Args:
        rows: a batch, such as a Delta or Parquet table.
        key: the key columns.
        position: the log position of the snapshot, in the form of the `position` of the changes:
            `[lsn]` for PostgreSQL, `[file, pos, row]` for MySQL; `[-1]` for changes that are
            ordered by topic offsets.
        snapshot_time: the time of the snapshot, with a time zone; the `event_time` of its rows.
        source_name: the value of `position.topic`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: as `diff_snapshots`.

    >>> rows = spark.sql("SELECT 1 AS id, 'a' AS name")
    >>> time = datetime.fromisoformat("2026-01-02T00:00:00Z")
    >>> changes = snapshot_as_changes(rows, key="id", position=[77], snapshot_time=time)
    >>> changes.select("op", "after.name").collect()
    [Row(op='snapshot', name='a')]
    """
    changes = diff_snapshots(
        rows.limit(0),
        rows,
        key=key,
        position=position,
        snapshot_time=snapshot_time,
        source_name=source_name,
    )
    return changes.withColumn("op", F.lit(SNAPSHOT))


def drop_covered_by_snapshot(
    changes: DataFrame,
    *,
    position: Sequence[int] | None = None,
    offsets: Mapping[str, Mapping[int, int]] | None = None,
) -> DataFrame:
    """Drop the changes that a snapshot already contains.

    A log that begins before its snapshot must be cut at the snapshot: for a row that was deleted
    before the snapshot, an older change would restore the row. Use this function as the transform
    of a job: `Stateless(partial(drop_covered_by_snapshot, position=[77]))`.

    Args:
        changes: a batch or a stream of changes.
        position: the position of the snapshot. Changes at or before it are dropped. A tombstone
            without a position is retained: `CurrentTable` applies it to the current row of its key.
        offsets: instead of `position`, for each topic and partition, the first offset after the
            snapshot. Partitions without an offset are read completely. For a new checkpoint,
            `KafkaSource(start=offsets)` has the same effect.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> rows = spark.sql("SELECT 1 AS id, 'a' AS name")
    >>> time = datetime.fromisoformat("2026-01-02T00:00:00Z")
    >>> changes = snapshot_as_changes(rows, key="id", position=[77], snapshot_time=time)
    >>> drop_covered_by_snapshot(changes, position=[77]).count()
    0
    """
    key_names(changes)
    if (position is None) == (offsets is None):
        raise ArgumentError(
            f"invalid position and offsets: {position!r}, {offsets!r}",
            "exactly one of them",
            "position=[77]",
        )
    if position is not None:
        snapshot = F.array(*map(F.lit, require_integers(position, "position")))
        is_covered = F.col("position")["source"] <= snapshot.cast("array<bigint>")
        return changes.where(~F.coalesce(is_covered, F.lit(False)))
    place = F.col("position")
    is_covered = is_before(offsets or {}, place["topic"], place["partition"], place["offset"])
    return changes.where(~is_covered)
