"""The latest change of each key (SCD type 1), and changes as upsert records."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ..columns import quoted_column
from .change_order import in_log_order, replaces, with_inherited_source
from .change_schema import (
    DELETE,
    NO_PREVIOUS_VALUE,
    POSITION_TYPE,
    SNAPSHOT,
    TOMBSTONE,
    TRUNCATE,
    current_row,
    has_key,
    has_unavailable,
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
_KEY = "__tidegate_key"
_NEEDS_FOLD = "__tidegate_needs_fold"
_CHANGES = "__tidegate_changes"
_STREAMED = "__tidegate_streamed"
_UNPLACED = "__tidegate_unplaced"
_TOMBSTONE = "__tidegate_tombstone"
_LAST_OFFSET = "__tidegate_last_offset"
_COMMITTED_AT = "__tidegate_committed_at"
_HAS_PARTITIONS = "__tidegate_has_partitions"
_HAS_SERVERS = "__tidegate_has_servers"
_HAS_GAPS = "__tidegate_has_gaps"
_TRUNCATES = "__tidegate_truncates"
_LAST = "__tidegate_last"
_IS_TRUNCATE = "__tidegate_is_truncate"
_IS_REMOVED = "__tidegate_is_removed"
_STORED = "__tidegate_stored"
_INCOMPLETE = "__tidegate_incomplete"


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
    return latest_states(changes, order_facts(changes)).drop(*STATE_COLUMNS)


def order_facts(changes: DataFrame) -> DataFrame:
    """Return, for each key, what decides about its latest change; the argument of `latest_states`.

    Those are the first change with the greatest position in the log of the database, the last row
    of a snapshot, the first tombstone, and whether these do not decide. Truncates have a null key.
    """
    # Spark sorts by columns faster than by a struct.
    parts = {f"{_KEY}_{number}": name for number, name in enumerate(key_names(changes))}
    columns = [F.col("key").getField(name).alias(part) for part, name in parts.items()]
    facts = _relevant_changes(changes).groupBy(*columns).agg(*_facts_of_key())
    is_complete = reduce(and_, [F.col(part).isNotNull() for part in parts])
    key = F.struct(*[F.col(part).alias(name) for part, name in parts.items()])
    added = {"key": F.when(is_complete, key), _NEEDS_FOLD: _needs_fold()}
    return facts.withColumns(added).drop(*parts)


def latest_states(changes: DataFrame, facts: DataFrame) -> DataFrame:
    """Return the rows of `latest_changes` with STATE_COLUMNS.

    The changes of the few keys whose order is not evident are applied one by one. The plan for
    that is large, so it is not made without such keys.
    """
    keys, names = key_names(changes), row_names(changes)
    found = facts.agg(F.max(_IS_TRUNCATE), F.max(_NEEDS_FOLD)).collect()[0]
    has_truncates, is_unordered = map(bool, found)
    needs_fold = F.col(_NEEDS_FOLD)
    if has_truncates:
        needs_fold = needs_fold | F.col("key").isNotNull()
    ordered = facts.where(~needs_fold).select("key", _last_in_order().alias(_LAST))
    if not (has_truncates or is_unordered):
        return _table_rows(ordered, keys, names)
    unordered_keys = facts.where(needs_fold).select(F.col("key").alias(_KEY))
    relevant = _relevant_changes(changes)
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    truncates = relevant.where(is_truncate).agg(F.collect_list(_change()).alias(_TRUNCATES))
    change_type = facts.schema[_STREAMED].dataType
    folded = (
        relevant.join(F.broadcast(unordered_keys), F.col("key").eqNullSafe(F.col(_KEY)))
        .groupBy("key")
        .agg(F.collect_list(_change()).alias(_CHANGES))
        .crossJoin(F.broadcast(truncates))
        .select("key", _fold(change_type, names).alias(_LAST))
    )
    return _table_rows(ordered.unionByName(folded), keys, names)


def incomplete_changes(changes: DataFrame, table: DataFrame | None) -> DataFrame | None:
    """Return the changes with a value that was not sent and that no row before them has.

    There is no row before a change in log order, or it is deleted. A change without effect needs no
    value. None if there are no such changes.

    changes: a batch of changes that can be read several times.
    table: the current table before the batch; None without one.
    """
    keys, names = key_names(changes), row_names(changes)
    candidates = _keys_without_row(changes, table, keys)
    if candidates.isEmpty():
        return None
    change = F.struct("position", *[name for name in changes.columns if name != "position"])
    relevant = _relevant_changes(changes)
    truncates = relevant.where(F.col("op") == F.lit(TRUNCATE)).agg(
        F.collect_list(change).alias(_TRUNCATES)
    )
    candidate_keys = candidates.select(F.col("key").alias(_KEY))
    of_keys = (
        relevant.join(F.broadcast(candidate_keys), F.col("key") == F.col(_KEY))
        .groupBy("key")
        .agg(F.collect_list(change).alias(_CHANGES))
        .crossJoin(F.broadcast(truncates))
    )
    found = _with_stored_states(of_keys, table, keys, names).select(
        F.explode(_incomplete_in_order(changes, names)).alias(_INCOMPLETE)
    )
    return found.select(*[F.col(f"{_INCOMPLETE}.{name}") for name in changes.columns])


def _keys_without_row(changes: DataFrame, table: DataFrame | None, keys: list[str]) -> DataFrame:
    """Return the keys with unavailable values that have no row at some time during the batch."""
    relevant = _relevant_changes(changes)
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    truncates = relevant.where(is_truncate).agg((F.count("*") > 0).alias(_TRUNCATES))
    is_removed = F.max(removes_row(F.col("op"))).alias(_IS_REMOVED)
    of_keys = (
        relevant.groupBy("key")
        .agg(F.max(has_unavailable()).alias(_HAS_GAPS), is_removed)
        .where(F.col(_HAS_GAPS))
        .crossJoin(F.broadcast(truncates))
    )
    if table is None:
        return of_keys.select("key")
    live = table.where(~F.col("deleted")).select(_stored_key(keys))
    with_rows = of_keys.join(live, F.col("key") == F.col(_KEY), "left")
    is_without_row = F.col(_IS_REMOVED) | F.col(_TRUNCATES) | F.col(_KEY).isNull()
    return with_rows.where(is_without_row).select("key")


def _stored_key(keys: list[str]) -> Column:
    return F.struct(*[quoted_column(name).alias(name) for name in keys]).alias(_KEY)


def _with_stored_states(
    of_keys: DataFrame, table: DataFrame | None, keys: list[str], names: list[str]
) -> DataFrame:
    """Add the state of each key in a current table; null without one."""
    change_type = of_keys.schema[_CHANGES].dataType.elementType  # type: ignore[attr-defined]
    if table is None:
        state_type = StructType([change_type[name] for name in _STATE_FIELDS])
        return of_keys.withColumn(_STORED, F.lit(None).cast(state_type))
    row = F.struct(*[quoted_column(name).alias(name) for name in names])
    state = F.struct(
        F.col("position").cast(POSITION_TYPE).alias("position"),
        F.col("changed_at").alias("event_time"),
        F.when(F.col("deleted"), F.lit(DELETE)).otherwise(F.lit(SNAPSHOT)).alias("op"),
        row.cast(change_type["after"].dataType).alias("after"),
        F.lit(None).cast("array<string>").alias("unavailable"),
    )
    stored = table.select(_stored_key(keys), state.alias(_STORED))
    return of_keys.join(stored, F.col("key") == F.col(_KEY), "left")


def _incomplete_in_order(changes: DataFrame, names: list[str]) -> Column:
    """Return the incomplete changes of a key, which have no effect on those after them."""
    of_all = F.col(_TRUNCATES)
    affecting = in_log_order(F.concat(_CHANGES, of_all))
    no_changes = F.filter(F.col(_CHANGES), lambda _: F.lit(False))
    stored = F.when(
        F.col(_STORED).isNotNull(), _state(F.col(_STORED), F.when(F.lit(False), F.col(_STORED)))
    )

    def add(so_far: Column, change: Column) -> Column:
        state, small = so_far["state"], F.struct(*[change[each] for each in _STATE_FIELDS])
        has_row = state.isNotNull() & ~removes_row(state["op"])
        has_effect = state.isNull() | replaces(change["position"], state["position"])
        is_incomplete = has_unavailable(change["unavailable"]) & has_effect & ~has_row
        following = F.when(is_incomplete, state).otherwise(_next_state(state, small, names))
        found = F.when(is_incomplete, F.concat(so_far["found"], F.array(change)))
        return F.struct(following.alias("state"), found.otherwise(so_far["found"]).alias("found"))

    start = F.struct(stored.alias("state"), no_changes.alias("found"))
    return F.aggregate(affecting, start, add)["found"]


def _relevant_changes(changes: DataFrame) -> DataFrame:
    """Return the changes of keys, and truncates."""
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    return with_deletes_of_old_keys(changes).where(has_key(changes) | is_truncate)


def _change() -> Column:
    return F.struct(*_STATE_FIELDS)


def _facts_of_key() -> list[Column]:
    change, offset = _change(), F.col("position.offset")
    source = F.col("position.source")
    is_tombstone = F.col("op") == F.lit(TOMBSTONE)
    partition = F.struct("position.topic", "position.partition")
    server, committed_at = F.col("position.server"), F.col("position.committed_at")
    is_streamed = source.isNotNull()
    return [
        F.max_by(change, F.when(is_streamed, F.struct(source, -offset))).alias(_STREAMED),
        F.max_by(change, F.when(~is_streamed & ~is_tombstone, offset)).alias(_UNPLACED),
        F.min_by(change, F.when(is_tombstone, offset)).alias(_TOMBSTONE),
        F.max(F.when(~is_tombstone, offset)).alias(_LAST_OFFSET),
        F.max(F.when(is_streamed, committed_at)).alias(_COMMITTED_AT),
        (F.min(partition) != F.max(partition)).alias(_HAS_PARTITIONS),
        (F.min(server) != F.max(server)).alias(_HAS_SERVERS),
        F.max(F.size("unavailable") > 0).alias(_HAS_GAPS),
        F.max(F.col("op") == F.lit(TRUNCATE)).alias(_IS_TRUNCATE),
    ]


def _needs_fold() -> Column:
    """Return whether the changes of a key must be applied one by one, also without truncates."""
    streamed, unplaced, tombstone = F.col(_STREAMED), F.col(_UNPLACED), F.col(_TOMBSTONE)
    conditions = [
        F.col(_HAS_SERVERS),
        F.col(_HAS_GAPS),
        F.col(_HAS_PARTITIONS) & (unplaced.isNotNull() | tombstone.isNotNull()),
        tombstone["position"]["offset"] < F.col(_LAST_OFFSET),
        # A change with a lower position was committed later.
        streamed["position"]["committed_at"] < F.col(_COMMITTED_AT),
    ]
    return reduce(or_, [F.coalesce(condition, F.lit(False)) for condition in conditions])


def _last_in_order() -> Column:
    """Return the state of a key whose changes need not be applied one by one."""
    streamed, unplaced, tombstone = F.col(_STREAMED), F.col(_UNPLACED), F.col(_TOMBSTONE)
    is_before = streamed["position"]["offset"] < unplaced["position"]["offset"]
    is_streamed = streamed.isNotNull() & ~F.coalesce(is_before, F.lit(False))
    last = F.when(is_streamed, streamed).otherwise(_placed(unplaced, streamed))
    is_deleted = tombstone.isNotNull() & ~F.coalesce(removes_row(last["op"]), F.lit(False))
    return F.when(is_deleted, _state(tombstone, tombstone)).otherwise(_state(last, unplaced))


def _state(change: Column, fallback: Column) -> Column:
    """Return the state of a key after a change.

    `fallback` is the last snapshot row or tombstone, which have no position in the log of the
    database: the changes after it may turn out to be older than the row of the table.
    """
    fields = [change[name].alias(name) for name in _STATE_FIELDS]
    return F.struct(*fields, fallback.alias("fallback"))


def _placed(change: Column, stored: Column) -> Column:
    """Return a change; a snapshot row has the position of the stored change."""
    takes_position = stored.isNotNull() & (change["op"] != F.lit(TOMBSTONE))
    position = F.when(takes_position, with_inherited_source(change["position"], stored["position"]))
    return change.withField("position", position.otherwise(change["position"]))


def _fold(change_type: DataType, names: list[str]) -> Column:
    """Return the state of a key after its changes, applied one by one in log order."""
    of_all = F.col(_TRUNCATES)
    is_affected = F.col("key").isNotNull() & (F.size(of_all) > 0)
    affecting = F.when(is_affected, F.concat(_CHANGES, of_all)).otherwise(F.col(_CHANGES))
    nothing = F.lit(None).cast(change_type)
    return F.aggregate(
        in_log_order(affecting),
        F.when(F.lit(False), _state(nothing, nothing)),
        lambda stored, change: _next_state(stored, change, names),
    )


def _next_state(stored: Column, change: Column, names: list[str]) -> Column:
    """Return the state of a key after a further change; null before the first one."""
    is_redundant = (change["op"] == F.lit(TOMBSTONE)) & removes_row(stored["op"])
    has_effect = replaces(change["position"], stored["position"]) & ~is_redundant
    complete = _filled(stored, change, names)
    is_streamed = change["position"]["source"].isNotNull()
    fallback = F.when(is_streamed, stored["fallback"]).otherwise(complete)
    return F.when(stored.isNull(), _state(change, F.when(~is_streamed, change))).otherwise(
        F.when(has_effect, _state(_placed(complete, stored), fallback)).otherwise(stored)
    )


def _filled(stored: Column, change: Column, names: list[str]) -> Column:
    """Return a change; values that were not sent are those of the stored row."""
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
    filled = change.withField("after", F.struct(*values)).withField("unavailable", still_missing)
    # A job splits off such changes before (`incomplete_changes`).
    is_lost = removes_row(stored["op"]) & (F.size(missing) > 0)
    error = F.raise_error(NO_PREVIOUS_VALUE).cast("array<string>")
    checked = change.withField("unavailable", F.when(is_lost, error).otherwise(missing))
    return F.when(is_filled, filled).otherwise(checked)


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
