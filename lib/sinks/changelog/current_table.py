"""Apply a changelog to a table that contains the current row of each key (SCD type 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import reduce
from operator import and_, or_
from typing import Any, ClassVar

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, TimestampType

from ...changelogs.change_order import replaces, with_inherited_source
from ...changelogs.change_schema import (
    NO_PREVIOUS_VALUE,
    POSITION_TYPE,
    current_row,
    key_names,
)
from ...changelogs.latest_changes import (
    FALLBACK,
    IS_TOMBSTONE,
    STATE_COLUMNS,
    UNAVAILABLE,
    incomplete_changes,
    latest_states,
    order_facts,
)
from ...columns import first_reason, quote_name, quoted_column, quoted_column_in, same_key
from ...commit.batch import BatchPlan, CommitContext
from ...delta import delta_table as table
from ...delta.commit_options import CommitOptions
from ...delta.delta_table import SOURCE_ALIAS, TARGET_ALIAS
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...durations import microseconds
from ...input_frames import only_frame
from ..base import AcceptedRows, TableSink, require_target
from .change_faults import change_faults, split_incomplete

PURGE_EVERY = 50
"""Number of batches between two that scan the table for expired tombstones and delete them."""

_TRUNCATE = "__tidegate_truncate"


@dataclass(frozen=True)
class CurrentTable(TableSink):
    """Maintain the current rows of a changing table (SCD type 1), each change exactly once.

    A batch contains changes, as `debezium_format` and `maxwell_format` return them. A row replaces
    the stored row of its key if it follows it in the log. The result depends neither on batch
    boundaries nor on changes that are sent again.

    Columns: those of the source table, `changed_at` (source time of the last change), `deleted` and
    `position`. A deleted key remains as a tombstone: a row with `deleted` true and null values, so
    that a repeated older change does not restore it. A truncate remains as a row with a null key.
    `rows` returns the table without both. With the table property `delta.enableChangeDataFeed`,
    `DeltaChangeFeed` reads the table as a changelog.

    A value that was not sent with a change (`unavailable`) is that of the row before it. A job
    writes a change without such a row to its dead letters.

    Each batch scans the table as that of `Upsert`. A truncate rewrites the table. No other writer
    may change rows.

    Args:
        path: path of the Delta table.
        layout, output: as for `Append`.
        delete_retention: retention of tombstones, relative to the newest change of a batch; one
            batch in fifty deletes expired ones. It must exceed the age of any repeated change: an
            older change of an expired key restores the key. None keeps tombstones forever.

    Raises:
        ColumnError, ColumnTypeError: for rows that are not changes; a job then writes nothing.
        TableError: for a table with different columns.
        TableMismatchError, ConflictError: for a batch.

    >>> CurrentTable("/data/customers").output
    'current'
    """

    plan_name: ClassVar[str] = "current_table"
    path: str
    _: KW_ONLY
    layout: TableLayout = ANY_LAYOUT
    output: str = "current"
    fills_unavailable: ClassVar[bool] = True
    reads_changes: ClassVar[bool] = True
    delete_retention: str | timedelta | None = None

    def __post_init__(self) -> None:
        if self.delete_retention is not None:
            microseconds(self.delete_retention, "delete_retention")
        require_target(self.path, self.output, self.layout, self)

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of the current rows against the table."""
        changes = only_frame(frames())
        states = changes.select(
            *current_row(changes),
            F.col("event_time").alias("changed_at"),
            F.lit(False).alias("deleted"),
            F.col("position"),
        )
        table.require_matching_schema(states, self.path, self.layout, evolve=False)
        return True

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the table cannot store the row of a change."""
        return first_reason(change_faults(rows, self.path, self.layout))

    def accepted(
        self, frames: Mapping[str, DataFrame], plan: BatchPlan
    ) -> AbstractContextManager[AcceptedRows]:
        """Return the changes without those that lack a value which the table does not have."""
        return split_incomplete(frames, self.path, incomplete_changes)

    def _write_rows(self, rows: DataFrame, batch: CommitContext, options: CommitOptions) -> None:
        facts = order_facts(rows).persist()
        try:
            states = table.without_column_metadata(latest_states(rows, facts))
            self._write_states(states, key_names(rows), batch, options)
        finally:
            facts.unpersist()

    def _write_states(
        self, states: DataFrame, keys: Sequence[str], batch: CommitContext, options: CommitOptions
    ) -> None:
        latest = states.persist()
        try:
            complete = F.when(_is_incomplete(F.col), _no_value()).otherwise(F.col("position"))
            stored = latest.withColumn("position", complete).drop(*STATE_COLUMNS)
            if table.require_matching_schema(stored, self.path, self.layout, evolve=False) is None:
                table.append(stored, self.path, options, self.layout)
            else:
                is_purge_due = batch.plan.number % PURGE_EVERY == PURGE_EVERY - 1
                found = _Occurrences.find(latest, keys)
                self._merge(found.without_unused(latest), found, keys, options, purge=is_purge_due)
        finally:
            latest.unpersist()

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the current rows with the columns of the source table."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(~F.col("deleted")).drop("changed_at", "deleted", "position")

    def _merge(
        self,
        rows: DataFrame,
        found: _Occurrences,
        keys: Sequence[str],
        options: CommitOptions,
        *,
        purge: bool,
    ) -> None:
        spark = rows.sparkSession
        source, is_inserted = rows, F.lit(True)
        truncates = DeltaTable.forPath(spark, self.path).toDF().where(_is_truncate(keys))
        if not truncates.isEmpty():
            # A new key is not inserted if the source was truncated after its change.
            last_truncate = truncates.select(F.col("position").alias(_TRUNCATE))
            source = rows.join(F.broadcast(last_truncate), how="left")
            truncate = quoted_column_in(SOURCE_ALIAS, _TRUNCATE)
            is_inserted = truncate.isNull() | replaces(_source("position"), truncate)
        merge = table.start_merge(spark, self.path, source, same_key(keys)).whenMatchedUpdate(
            condition=_is_newer(_source), set=_updated_values(rows, _source, found)
        )
        if found.has_fallbacks:
            merge = merge.whenMatchedUpdate(
                condition=_source(FALLBACK).isNotNull() & _is_newer(_fallback),
                set=_updated_values(rows, _fallback, found),
            )
        merge = merge.whenNotMatchedInsert(
            condition=is_inserted, values=_inserted_values(rows, found)
        )
        if purge and self.delete_retention is not None and found.newest_change is not None:
            retention_micros = microseconds(self.delete_retention, "delete_retention")
            merge = _with_purge(merge, keys, found.newest_change - retention_micros)
        with options.apply_to_session(spark):
            _with_truncate(merge, rows, found, keys).execute()


@dataclass(frozen=True)
class _Occurrences:
    """What occurs among the states of a batch. The merge has expressions for nothing else.

    has_fallbacks: states with FALLBACK.
    has_unavailable: values that were not sent.
    has_unplaced: states without a position in the log of the database, as each FALLBACK is.
    newest_change: the latest `changed_at`, in microseconds since 1970.
    truncate: the position and the time of the truncate, with its times in microseconds; or None.
    """

    has_fallbacks: bool
    has_unavailable: bool
    has_unplaced: bool
    newest_change: int | None
    truncate: Row | None

    @classmethod
    def find(cls, rows: DataFrame, keys: Sequence[str]) -> _Occurrences:
        """Return what occurs among these rows."""
        lacks_values = _is_incomplete(F.col) | _is_incomplete(lambda name: F.col(FALLBACK)[name])
        position = F.struct(
            *[_as_number(F.col("position")[each.name], each) for each in POSITION_TYPE]
        )
        truncate = F.struct(position.alias("position"), F.unix_micros("changed_at").alias("at"))
        found = rows.agg(
            F.max(F.col(FALLBACK).isNotNull()),
            F.max(lacks_values),
            F.max(F.col("position")["source"].isNull() | F.col(FALLBACK).isNotNull()),
            F.unix_micros(F.max("changed_at")),
            F.first(F.when(_is_truncate(keys), truncate), ignorenulls=True),
        )
        return cls(*found.collect()[0])

    def without_unused(self, rows: DataFrame) -> DataFrame:
        """Return the rows without the columns that the merge does not need."""
        unused = () if self.has_fallbacks else (FALLBACK,)
        return rows.drop(*unused, *(() if self.has_unavailable else (UNAVAILABLE,)))


def _source(name: str) -> Column:
    return quoted_column_in(SOURCE_ALIAS, name)


def _fallback(name: str) -> Column:
    return _source(FALLBACK)[name]


def _target(name: str) -> Column:
    return quoted_column_in(TARGET_ALIAS, name)


def _is_newer(state: Callable[[str], Column]) -> Column:
    """Return whether a state of the batch replaces the stored row."""
    is_redundant = state(IS_TOMBSTONE) & _target("deleted")
    return replaces(state("position"), _target("position")) & ~is_redundant


def _values(rows: DataFrame, state: Callable[[str], Column]) -> dict[str, str | Column]:
    names = [name for name in rows.columns if name not in STATE_COLUMNS]
    return {quote_name(name): state(name) for name in names}


def _updated_values(
    rows: DataFrame, state: Callable[[str], Column], found: _Occurrences
) -> dict[str, str | Column]:
    """Return the values of a state of the batch; those that were not sent are the stored ones."""
    values, position = _values(rows, state), state("position")
    if found.has_unplaced:
        inherited = with_inherited_source(position, _target("position"))
        position = F.when(state(IS_TOMBSTONE), position).otherwise(inherited)
    if found.has_unavailable:
        for name in rows.columns:
            if name not in ("position", "changed_at", "deleted", *STATE_COLUMNS):
                is_missing = F.array_contains(state(UNAVAILABLE), name)
                values[quote_name(name)] = F.when(is_missing, _target(name)).otherwise(state(name))
        is_incomplete = _is_incomplete(state) & _target("deleted")
        position = F.when(is_incomplete, _no_value()).otherwise(position)
    return {**values, quote_name("position"): position}


def _inserted_values(rows: DataFrame, found: _Occurrences) -> dict[str, str | Column]:
    values = _values(rows, _source)
    if not found.has_unavailable:
        return values
    position = F.when(_is_incomplete(_source), _no_value()).otherwise(_source("position"))
    return {**values, quote_name("position"): position}


def _is_incomplete(state: Callable[[str], Column]) -> Column:
    """Return whether a state lacks values; a job splits off changes that leave such a row."""
    return F.coalesce(F.size(state(UNAVAILABLE)) > 0, F.lit(False))


def _no_value() -> Column:
    return F.raise_error(NO_PREVIOUS_VALUE).cast(POSITION_TYPE)


def _with_purge(
    merge: DeltaMergeBuilder, keys: Sequence[str], limit_micros: int
) -> DeltaMergeBuilder:
    """Return the merge with a clause that deletes expired tombstones."""
    limit = F.timestamp_micros(F.lit(limit_micros))
    is_key = reduce(or_, [quoted_column_in(TARGET_ALIAS, name).isNotNull() for name in keys])
    is_older = quoted_column_in(TARGET_ALIAS, "changed_at") < limit
    is_expired = quoted_column_in(TARGET_ALIAS, "deleted") & is_key & is_older
    return merge.whenNotMatchedBySourceDelete(is_expired)


def _with_truncate(
    merge: DeltaMergeBuilder, rows: DataFrame, found: _Occurrences, keys: Sequence[str]
) -> DeltaMergeBuilder:
    """Return the merge with a clause that deletes the keys before a truncate among the rows."""
    if found.truncate is None:
        return merge
    position = F.struct(
        *[_from_number(found.truncate["position"][each.name], each) for each in POSITION_TYPE]
    )
    follows = replaces(position, _target("position"))
    deleted_at = F.timestamp_micros(F.lit(found.truncate["at"]))
    return merge.whenNotMatchedBySourceUpdate(
        condition=follows,
        set={**_deletion_values(rows, keys, deleted_at), "position": position},
    )


def _as_number(value: Column, field: StructField) -> Column:
    """Return a field of a position, a timestamp in microseconds: Python's has a time zone."""
    is_time = isinstance(field.dataType, TimestampType)
    return (F.unix_micros(value) if is_time else value).alias(field.name)


def _from_number(value: Any, field: StructField) -> Column:
    """Return the literal of a field that `_as_number` has returned."""
    column = F.array(*map(F.lit, value)) if isinstance(value, list) else F.lit(value)
    if isinstance(field.dataType, TimestampType):
        column = F.timestamp_micros(column)
    return column.cast(field.dataType).alias(field.name)


def _deletion_values(
    rows: DataFrame, keys: Sequence[str], deleted_at: Column
) -> dict[str, str | Column]:
    retained = {*keys, "position", "deleted", "changed_at", *STATE_COLUMNS}
    nulls = {
        quote_name(field.name): F.lit(None).cast(field.dataType)
        for field in rows.schema
        if field.name not in retained
    }
    return {**nulls, "deleted": F.lit(True), "changed_at": deleted_at}


def _is_truncate(keys: Sequence[str]) -> Column:
    return reduce(and_, [quoted_column(name).isNull() for name in keys])
