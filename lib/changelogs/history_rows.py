"""History rows (SCD type 2): each version of a row, with its validity period."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..columns import quoted_column, same_key
from .change_order import replaces
from .change_schema import (
    NO_PREVIOUS_VALUE,
    SNAPSHOT,
    TOMBSTONE,
    TRUNCATE,
    current_row,
    has_key,
    has_unavailable,
    is_unavailable,
    key_names,
    removes_row,
    row_names,
    with_deletes_of_old_keys,
)

VALIDITY_COLUMNS = ("valid_from", "valid_to", "is_current", "op", "position")
_FIRST_TRUNCATE = "__tidegate_first_truncate"
_CHANGE = "__tidegate_change"
_NEW_ROW = "__tidegate_new_row"
_PREVIOUS_ROW = "__tidegate_previous_row"
_LOG_TIME = "__tidegate_log_time"
_IS_REDUNDANT = "__tidegate_is_redundant"
_IS_INCOMPLETE = "__tidegate_is_incomplete"
_IS_NEW = "__tidegate_is_new"
_IS_LATE = "__tidegate_is_late"
_RANK = "__tidegate_rank"
_SOURCE = "__tidegate_source"
_TRUNCATES = "__tidegate_truncates"
_UNAVAILABLE = "__tidegate_unavailable"
_LOG_ORDER = (_LOG_TIME, "position.topic", "position.partition", "position.offset")
"""The columns that order the changes of a key, as `change_order` describes."""


def history_rows(changes: DataFrame) -> DataFrame:
    """Return every version of every row, with its validity period.

    The result is a slowly changing dimension of type 2. A version is valid from the source time of
    its change (inclusive) to the time of the next change of its key (exclusive); a null `valid_to`
    marks the current version. Versions of a key neither overlap nor have gaps while the row exists,
    in whatever order changes arrive: a late change is inserted at its time. At one instant a key
    has one version, that of the last change by the log of the database, or else by the topic. Every
    change creates a version, also one that changes no value; one that is sent again creates none.

    A delete, truncate or tombstone is a row without values and with valid_to = valid_from. Late
    changes need these rows, and as-of joins never match them. The condition
    `valid_to IS NULL OR valid_from < valid_to` selects only the versions. A truncate is a row with
    a null key; it ends all versions before it in log order that began at or before its time.

    A tombstone has no source time. After a delete it is redundant and dropped. Otherwise it ends
    its key at its Kafka timestamp, or at the time of the next change in the log if that is earlier.
    So does the version of a row of a snapshot, whose time is when it was read.

    A value that was not sent is that of the version before; changes without such a version fail.

    Times are source times: if the source clock moves back between two changes of a key, the history
    follows the clock, and `latest_changes` follows the log. Changes without a key or a time have no
    version; the formats send them to the dead letters.

    Args:
        changes: a batch with the rows of `debezium_format` or `maxwell_format`.

    Returns:
        The columns of the table, `valid_from`, `valid_to`, `is_current`, `op` (of the change that
        created the version) and `position`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium_format
    >>> customers = debezium_format("id INT, name STRING", key="id")
    >>> history_rows(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'valid_from', 'valid_to', 'is_current', 'op', 'position']
    """
    return _validity(_version_rows(changes), key_names(changes), row_names(changes), has_gaps=True)


def history_updates(
    table: DataFrame, changes: DataFrame, *, has_truncate: bool, has_gaps: bool = True
) -> DataFrame:
    """Return the rows to insert, replace or delete in a history table for further changes.

    Args:
        table: the result of `history_rows` so far.
        changes: a batch of further changes.
        has_truncate: whether the changes include a truncate, which affects all keys that existed
            at its time or later.
        has_gaps: whether the changes include one with a value that was not sent.

    Returns:
        The columns of the table, and `was`: the row of the table with this key and valid_from, null
        for a new row. For a row that must be deleted, all columns except key, valid_from and `was`
        are null, including `op`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium_format
    >>> changes = spark.createDataFrame([], debezium_format("id INT, name STRING", key="id").schema)
    >>> history_updates(history_rows(changes), changes, has_truncate=False).columns[-1]
    'was'
    """
    keys = key_names(changes)
    names = row_names(changes)
    versions = table.select(*map(quoted_column, names), *VALIDITY_COLUMNS)
    affected_rows = _affected_versions(versions, changes, keys, has_truncate=has_truncate)
    rows = _stored_rows(affected_rows, names).unionByName(_version_rows(changes))
    validity = _validity(rows, keys, names, has_gaps=has_gaps)
    return _changed_versions(validity, affected_rows, keys, names)


def incomplete_versions(changes: DataFrame, table: DataFrame | None) -> DataFrame:
    """Return the changes with a value that was not sent and that no version before them has.

    There is no version before a change in log order, or it is deleted. A change that is sent again
    needs no value.

    changes: a batch of changes that can be read several times.
    table: the history table before the batch; None without one.
    """
    keys, names = key_names(changes), row_names(changes)
    key = [quoted_column(name) for name in keys]
    affected_keys = F.broadcast(changes.where(has_unavailable()).select("key.*").distinct())
    rows = _version_rows(changes, F.struct(*changes.columns).alias(_CHANGE))
    if table is not None:
        rows = rows.unionByName(_stored_rows(table, names), allowMissingColumns=True)
    of_keys = rows.alias("old").join(affected_keys.alias("new"), same_key(keys), "left_semi")
    log_order = Window.partitionBy(*key).orderBy(*_LOG_ORDER)
    before = log_order.rowsBetween(Window.unboundedPreceding, -1)
    is_complete = ~has_unavailable(_UNAVAILABLE) & ~F.col(_IS_LATE)
    complete_row = F.when(is_complete, F.struct("op", "position"))
    with_previous = (
        _with_lateness(_in_log_order(of_keys, key), key)
        .withColumn(_PREVIOUS_ROW, F.last(complete_row, ignorenulls=True).over(before))
        .crossJoin(F.broadcast(_collected_truncates(rows)))
    )
    previous = F.col(_PREVIOUS_ROW)
    is_truncated = F.exists(
        _TRUNCATES,
        lambda truncate: (
            replaces(truncate["position"], previous["position"])
            & replaces(F.col("position"), truncate["position"])
        ),
    )
    has_no_row = previous.isNull() | removes_row(previous["op"]) | is_truncated | F.col(_IS_LATE)
    # A change is not sent again if those before it at its place in the log are incomplete.
    at_position = Window.partitionBy(*key, "position.server", "position.source")
    so_far = at_position.orderBy(*_LOG_ORDER).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    is_incomplete = F.coalesce(has_unavailable(_UNAVAILABLE) & has_no_row, F.lit(False))
    is_new = F.min(_IS_INCOMPLETE).over(so_far) | F.col("position.source").isNull()
    found = with_previous.withColumn(_IS_INCOMPLETE, is_incomplete).withColumn(_IS_NEW, is_new)
    return found.where(F.col(_IS_INCOMPLETE) & F.col(_IS_NEW)).select(f"{_CHANGE}.*")


def _affected_versions(
    table: DataFrame, changes: DataFrame, keys: list[str], *, has_truncate: bool
) -> DataFrame:
    """Return the table's rows of the keys whose versions may change, and its truncates."""
    changed = with_deletes_of_old_keys(changes).select("key.*")
    # Truncates have a null key.
    no_key = [F.lit(None).cast(field.dataType).alias(field.name) for field in changed.schema]
    affected_keys = changed.unionByName(changed.sparkSession.range(1).select(*no_key))
    if has_truncate:
        truncates = changes.where(F.col("op") == F.lit(TRUNCATE))
        first = truncates.agg(F.min("event_time").alias(_FIRST_TRUNCATE))
        was_live = F.col("valid_to").isNull() | (F.col("valid_to") > F.col(_FIRST_TRUNCATE))
        live_versions = table.crossJoin(F.broadcast(first)).where(was_live)
        affected_keys = affected_keys.unionByName(live_versions.select(*map(quoted_column, keys)))
    distinct_keys = affected_keys.distinct()
    return table.alias("old").join(distinct_keys.alias("new"), same_key(keys), "left_semi")


def _changed_versions(
    timeline: DataFrame, stored: DataFrame, keys: list[str], names: list[str]
) -> DataFrame:
    """Return the versions that differ from the stored ones, each with its stored row as `was`."""
    columns = [*names, *VALIDITY_COLUMNS]
    version_key = [*keys, "valid_from"]
    key = [quoted_column(name) for name in version_key]
    row = F.struct(*[quoted_column(name) for name in columns if name not in version_key])
    # A column of the table can be NOT NULL, and the row of a deletion has nulls.
    fields = stored.select(row.alias("row")).schema["row"].dataType.fields  # type: ignore[attr-defined]
    row_type = StructType([StructField(field.name, field.dataType) for field in fields])
    null_row, new_row = F.lit(None).cast(row_type), row.cast(row_type).alias(_NEW_ROW)
    new_rows = timeline.select(*key, new_row, null_row.alias(_PREVIOUS_ROW))
    previous_rows = stored.select(*key, null_row.alias(_NEW_ROW), row.alias(_PREVIOUS_ROW))
    non_null = [
        F.max_by(name, F.col(name).isNotNull()).alias(name) for name in (_NEW_ROW, _PREVIOUS_ROW)
    ]
    pairs = new_rows.unionByName(previous_rows).groupBy(*key).agg(*non_null)
    new, previous = F.col(_NEW_ROW), F.col(_PREVIOUS_ROW)
    values = [
        quoted_column(name) if name in version_key else new[name].alias(name) for name in columns
    ]
    return pairs.where(~new.eqNullSafe(previous)).select(*values, previous.alias("was"))


def _stored_rows(versions: DataFrame, names: list[str]) -> DataFrame:
    """Return versions of a table as `_version_rows` returns those of changes."""
    unavailable = F.lit(None).cast("array<string>").alias(_UNAVAILABLE)
    return versions.select(*map(quoted_column, names), "valid_from", "op", "position", unavailable)


def _version_rows(changes: DataFrame, *more: Column) -> DataFrame:
    """Return a row for each change, with the columns of the version that it creates, and more."""
    timed_changes = with_deletes_of_old_keys(changes).where(F.col("event_time").isNotNull())
    relevant_changes = timed_changes.where(has_key(changes) | (F.col("op") == F.lit(TRUNCATE)))
    return relevant_changes.select(
        *current_row(changes),
        F.col("event_time").alias("valid_from"),
        "op",
        "position",
        F.col("unavailable").alias(_UNAVAILABLE),
        *more,
    )


def _validity(rows: DataFrame, keys: list[str], names: list[str], *, has_gaps: bool) -> DataFrame:
    """Return the versions of changes; the rules of `history_rows`, applied one after the other."""
    key = [quoted_column(name) for name in keys]
    effective = _without_repeats(_in_log_order(rows, key), key)
    if has_gaps:
        effective = _with_sent_values(effective, key, names)
    one_per_instant = _last_per_instant(_with_bounded_times(effective, key), key)
    with_truncates = one_per_instant.crossJoin(F.broadcast(_collected_truncates(rows)))
    with_validity = _with_valid_to(with_truncates, key)
    with_current_flag = with_validity.withColumn("is_current", F.col("valid_to").isNull())
    return with_current_flag.select(*map(quoted_column, names), *VALIDITY_COLUMNS)


def _in_log_order(rows: DataFrame, key: list[Column]) -> DataFrame:
    """Add the first of the columns _LOG_ORDER: the latest time of a record in its partition."""
    by_offset = Window.partitionBy(*key, "position.topic", "position.partition").orderBy(
        "position.offset"
    )
    so_far = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return rows.withColumn(_LOG_TIME, F.max("position.written_at").over(so_far))


def _without_repeats(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Drop changes that were sent again, and tombstones after a removal.

    The first change at a place in the log remains. A tombstone after a delete that was sent again
    is redundant too.
    """
    at_position = Window.partitionBy(*key, "position.server", "position.source")
    log_order = Window.partitionBy(*key).orderBy(*_LOG_ORDER)
    follows_removal = F.coalesce(removes_row(F.lag("op").over(log_order)), F.lit(False))
    ranked = changes.withColumns(
        {
            _RANK: F.row_number().over(at_position.orderBy(*_LOG_ORDER)),
            _IS_REDUNDANT: (F.col("op") == F.lit(TOMBSTONE)) & follows_removal,
        }
    )
    is_first = (F.col(_RANK) == 1) | F.col("position.source").isNull()
    return ranked.where(is_first & ~F.col(_IS_REDUNDANT)).drop(_RANK, _IS_REDUNDANT)


def _with_lateness(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Add whether a change has a lower position than one before it, and was not committed later."""
    log_order = Window.partitionBy(*key, "position.server").orderBy(*_LOG_ORDER)
    before = log_order.rowsBetween(Window.unboundedPreceding, -1)
    is_lower = F.col("position.source") < F.max("position.source").over(before)
    committed_at = F.col("position.committed_at")
    is_earlier = committed_at <= F.max(committed_at).over(before)
    return changes.withColumn(_IS_LATE, F.coalesce(is_lower & is_earlier, F.lit(False)))


def _with_sent_values(changes: DataFrame, key: list[Column], names: list[str]) -> DataFrame:
    """Take values that were not sent from the row before, in log order."""
    log_order = Window.partitionBy(*key).orderBy(*_LOG_ORDER)
    before = log_order.rowsBetween(Window.unboundedPreceding, -1)
    has_effect = ~F.col(_IS_LATE)
    op_before = F.last(F.when(has_effect, F.col("op")), ignorenulls=True).over(before)
    has_no_row = F.coalesce(removes_row(op_before), F.lit(True)) | F.col(_IS_LATE)
    # A job splits off such changes before (`incomplete_versions`).
    error = F.raise_error(NO_PREVIOUS_VALUE).cast("string")
    is_incomplete = has_unavailable(_UNAVAILABLE) & has_no_row
    filled = {"op": F.when(is_incomplete, error).otherwise(F.col("op"))}
    for name in names:
        column = quoted_column(name)
        is_missing = is_unavailable(name, _UNAVAILABLE)
        known = F.when(has_effect & ~is_missing, F.struct(column.alias("value")))
        last_known = F.last(known, ignorenulls=True).over(before)["value"]
        filled[name] = F.when(is_missing, last_known).otherwise(column)
    return _with_lateness(changes, key).withColumns(filled).drop(_IS_LATE)


def _with_bounded_times(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Limit times that are not those of a change in the database to that of the next change.

    A tombstone has the time of its record, and a row of a snapshot the time at which it was read.
    """
    log_order = Window.partitionBy(*key).orderBy(*_LOG_ORDER)
    next_valid_from = F.min("valid_from").over(log_order.rowsBetween(1, Window.unboundedFollowing))
    is_bounded = F.col("op").isin(TOMBSTONE, SNAPSHOT)
    time = F.when(is_bounded, F.least("valid_from", next_valid_from))
    return changes.withColumn("valid_from", time.otherwise(F.col("valid_from")))


def _last_per_instant(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Retain the last change at each instant: by the log of the database, or else by the topic."""
    instant = Window.partitionBy(*key, "valid_from")
    server, source = F.col("position.server"), F.col("position.source")
    is_same_log = F.min(server).over(instant).eqNullSafe(F.max(server).over(instant))
    is_comparable = F.min(source.isNotNull()).over(instant) & is_same_log
    ordered = changes.withColumn(_SOURCE, F.when(is_comparable, source))
    last_first = instant.orderBy(F.desc(_SOURCE), *map(F.desc, _LOG_ORDER))
    ranked = ordered.withColumn(_RANK, F.row_number().over(last_first))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, _SOURCE)


def _with_valid_to(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Add `valid_to`; drop versions that a truncate ended at the instant of their start."""
    is_end = removes_row(F.col("op"))
    start = F.col("valid_from")

    def ends_it(truncate: Column) -> Column:
        follows = replaces(truncate["position"], F.col("position"))
        return (truncate["at"] >= start) & follows

    truncated_at = F.array_min(F.filter(F.col(_TRUNCATES), ends_it)["at"])
    next_valid_from = F.lead("valid_from").over(Window.partitionBy(*key).orderBy("valid_from"))
    valid_to = F.when(is_end, start).otherwise(F.least(next_valid_from, truncated_at))
    with_valid_to = changes.withColumn("valid_to", valid_to)
    return with_valid_to.where(is_end | F.col("valid_to").isNull() | (F.col("valid_to") > start))


def _collected_truncates(rows: DataFrame) -> DataFrame:
    """Return one row with the times and positions of all truncates."""
    truncates = rows.where(F.col("op") == F.lit(TRUNCATE))
    truncate_set = F.collect_set(F.struct(F.col("valid_from").alias("at"), "position"))
    return truncates.agg(truncate_set.alias(_TRUNCATES))
