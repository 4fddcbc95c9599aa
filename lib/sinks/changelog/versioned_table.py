"""A local copy of a table's versions, and the base class of sinks whose events wait for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import reduce
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...columns import (
    first_reason,
    quoted_column,
    require_column_names,
    require_columns,
    require_storable_names,
)
from ...commit.batch import CommitContext
from ...commit.delta_commit import commit_once, last_batch, require_current
from ...commit.protocol import Outcome
from ...delta import delta_table as table
from ...delta.commit_options import CommitOptions
from ...delta.row_constraints import storage_faults
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...durations import microseconds
from ...errors import ArgumentError, TableMismatchError
from ...input_frames import ROWS, require_frame
from ...joins import VALID_FROM, validity_periods
from ...jvm import delta_state
from ..append import Append
from ..base import Sink, require_target

REWRITE_EVERY = 50
"""Number of batches between two rewrites of the table."""

PENDING = "waiting"
"""Name of the commits of pending events in the application id."""
PENDING_BATCH = "__tidegate_batch"
"""The batch that a pending event arrived with; the partition column of their table.

A batch reads and rewrites only files of batches with events that are due.
"""
_PENDING_LAYOUT = TableLayout(partition_by=[PENDING_BATCH])
_UNMATCHED_BATCH = -1
"""Batch number of due events without a match, which every batch retries."""

_NEXT = "__tidegate_next"
_NEWEST = "__tidegate_newest"


@dataclass(frozen=True)
class VersionedTable:
    """A Delta table of a changelog's versions, with `valid_from`, and `valid_to` for deletions.

    A version is valid until the next version of its key starts; if several start at the same
    instant, the last by `order` is valid. The versions of each batch are appended exactly once.
    Used by `TemporalJoin` and `Percolator`.

    Args:
        path: path of the Delta table.
        key: the key columns.
        order: columns that order changes of a key at the same instant.
        partition: columns of independent parts of the changelog, such as the partitions of a topic.
            The progress of the changelog is then that of its slowest part that had any change;
            otherwise a fast part makes changes of the others late. All changes of a key are in one
            part.
        time: column of the time of the change.
        deleted: a boolean column that is true for deletions and is not stored; None for a changelog
            without deletions.
        to_changes: function that returns the changes from the rows of the changelog, with the
            columns above and those of the table; None if the rows are changes.
        retention: how long a version is retained after it was replaced, relative to the progress of
            the changelog; one batch in fifty deletes expired versions and compacts the table. The
            last version of a key is always retained, even a deletion, so that a late version is not
            taken for the newest. None retains all versions.
        output, layout: as for `Append`.

    >>> profiles = VersionedTable("/data/profiles", key="user", order=["offset"])
    >>> profiles.output
    'versions'
    """

    plan_name: ClassVar[str] = "versioned_table"
    path: str
    _: KW_ONLY
    key: str | Sequence[str]
    order: Sequence[str]
    partition: Sequence[str] = ()
    time: str = "event_time"
    deleted: str | None = None
    to_changes: Callable[[DataFrame], DataFrame] | None = None
    retention: str | timedelta | None = None
    output: str = "versions"
    layout: TableLayout = ANY_LAYOUT

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)
        require_column_names(self.key, "key")
        if isinstance(self.order, str) or not require_column_names(self.order, "order"):
            raise ArgumentError(
                f"invalid order: {self.order!r}",
                "a list of the columns that order the changes of a key",
                'order=["offset"]',
            )
        require_column_names(self.partition, "partition")
        if self.retention is not None:
            microseconds(self.retention, "retention", min_value=0)

    @property
    def keys(self) -> list[str]:
        """The columns of the key."""
        return require_column_names(self.key, "key")

    def append_changes(self, rows: DataFrame, batch: CommitContext) -> None:
        """Append the versions that start with the changes of a batch, if any."""
        changes = rows if self.to_changes is None else self.to_changes(rows)
        columns = [*self.keys, *self.order, *self.partition]
        require_columns(changes, columns, "key, order, partition")
        if changes.isEmpty():
            return
        spark = changes.sparkSession
        versions = validity_periods(changes, time=self.time, deleted=self.deleted)
        if self.deleted is not None:
            versions = versions.drop(self.deleted)
        last_number = last_batch(spark, self.path, batch, self.output) or 0
        # Batches without changes write nothing, so the exact batch may not exist.
        is_rewrite_due = batch.plan.number // REWRITE_EVERY > last_number // REWRITE_EVERY

        def commit(options: CommitOptions) -> None:
            state = table.require_matching_schema(versions, self.path, self.layout, evolve=False)
            if state is None or not is_rewrite_due or self.retention is None:
                table.append(versions, self.path, options, self.layout)
                return
            retained = self._retained_versions(
                self.read(spark), table.without_column_metadata(versions), self.retention
            )
            table.overwrite(retained, self.path, options)

        commit_once(spark, self.path, batch, self.output, commit, {})

    def exists(self, spark: SparkSession) -> bool:
        """Return whether the table contains any version."""
        return delta_state(spark, self.path).version >= 0

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all versions."""
        return spark.read.format("delta").load(self.path)

    def newest_change_time(self, spark: SparkSession) -> int | None:
        """Return the progress of the changelog in microseconds since 1970, or None if empty."""
        versions = table.read_table(spark, self.path)
        row = None if versions is None else self._newest_change(versions).head()
        return None if row is None else row[0]

    def _newest_change(self, rows: DataFrame) -> DataFrame:
        """Return the newest change of the slowest part, as one row."""
        newest_of_part = F.max(F.unix_micros(VALID_FROM)).alias(_NEWEST)
        parts = rows.groupBy(*map(quoted_column, self.partition)).agg(newest_of_part)
        return parts.agg(F.min(_NEWEST).alias(_NEWEST))

    def _retained_versions(
        self, old: DataFrame, new: DataFrame, retention: str | timedelta
    ) -> DataFrame:
        """Return old and new versions without expired ones.

        The age is relative to the progress before the new versions, since pending events may be as
        old.
        """
        by_key = Window.partitionBy(*map(quoted_column, self.keys))
        timeline = by_key.orderBy(VALID_FROM, *map(quoted_column, self.order))
        replaced_at = F.unix_micros(_NEXT)
        retention_micros = F.lit(microseconds(retention, "retention", min_value=0))
        return (
            old.unionByName(new)
            .withColumn(_NEXT, F.lead(VALID_FROM).over(timeline))
            .crossJoin(F.broadcast(self._newest_change(old)))
            .where(
                quoted_column(_NEXT).isNull()
                | (replaced_at > quoted_column(_NEWEST) - retention_micros)
            )
            .select(*map(quoted_column, old.columns))
        )


class ChangelogSink(Sink):
    """Base class of sinks that process an event once a changelog is complete up to its time.

    A batch stores its changes as versions, and processes the new and pending events that are due;
    the others are pending.
    """

    events_argument: ClassVar[str]
    """The argument with the name of the events among the inputs."""

    versions: VersionedTable
    pending_table: str
    watermark_delay: str | timedelta
    max_changelog_lag: str | timedelta | None
    changes: str
    time: str
    layout: TableLayout

    def _require_valid(self) -> None:
        require_target(self.path, self.output, self.layout)
        require_target(self.pending_table, PENDING)
        paths = [path for path, _ in self.tables()]
        if len(set(paths)) < len(paths):
            raise ArgumentError(f"invalid tables: {', '.join(paths)}", "a different path for each")
        microseconds(self.watermark_delay, "watermark_delay", min_value=0)
        if self.max_changelog_lag is not None:
            microseconds(self.max_changelog_lag, "max_changelog_lag", min_value=0)

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of versions, unmatched events if any, target and pending events."""
        return [
            (self.versions.path, self.versions.output),
            *self._unmatched_tables,
            (self.path, self.output),
            (self.pending_table, PENDING),
        ]

    def rejections(self, frames: Mapping[str, DataFrame]) -> dict[str, Column]:
        """Return why a table cannot store a change or the result of an event.

        A result has the columns of its event, and the other columns of the version. Changes are not
        checked if `to_changes` computes them.
        """
        events = require_frame(frames, getattr(self, self.events_argument), self.events_argument)
        changes = require_frame(frames, self.changes, "changes")
        own_columns = [name for name in changes.columns if name not in events.columns]
        change_faults = []
        if self.versions.to_changes is None:
            change_faults = [
                *storage_faults(changes, self.versions.path, self.versions.layout),
                *storage_faults(changes, self.path, self.layout, own_columns),
            ]
        event_faults = storage_faults(events, self.path, self.layout)
        for path, _ in self._unmatched_tables:
            event_faults += storage_faults(events, path, ANY_LAYOUT)
        reasons = {
            getattr(self, self.events_argument): first_reason(event_faults),
            self.changes: first_reason(change_faults),
        }
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @property
    def _unmatched_tables(self) -> list[tuple[str, str]]:
        return []

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Store the changes and events of the batch, and process the events that are due."""
        changes = require_frame(frames, self.changes, "changes")
        events_input = getattr(self, self.events_argument)
        events = require_frame(frames, events_input, self.events_argument)
        require_columns(events, [self.time], "time")
        self._require_events(events)
        require_storable_names(events.columns, f"input {events_input!r}")
        spark = events.sparkSession
        # A batch may write no row of the target, so the target is not checked.
        tables = [each for each in self.tables() if each != (self.path, self.output)]
        if _is_batch_committed(spark, tables, batch):
            return "skipped"
        self.versions.append_changes(changes, batch)
        new_events = events.withColumn(PENDING_BATCH, F.lit(batch.plan.number))
        stored = table.read_table(spark, self.pending_table)
        pending = new_events.where(F.lit(False)) if stored is None else stored
        instant = self._complete_until([new_events, pending])
        if instant is None:
            self._store_pending(new_events, batch, [])
            return "written"
        # An event without a time is always due.
        is_before = quoted_column(self.time) < F.timestamp_micros(F.lit(instant))
        due = F.coalesce(is_before, F.lit(True))
        due_batches = pending.where(due).select(PENDING_BATCH).distinct().collect()
        batches = sorted(row[0] for row in due_batches)
        in_batches = quoted_column(PENDING_BATCH).isin(batches)
        candidates = new_events.unionByName(pending.where(in_batches))

        with self._process_due(candidates.where(due), instant, batch) as (outcome, retried):
            remaining = candidates.where(~due)
            if retried is not None:
                unmatched = retried.withColumn(PENDING_BATCH, F.lit(_UNMATCHED_BATCH))
                remaining = remaining.unionByName(unmatched)
            self._store_pending(remaining, batch, batches)
        return outcome

    def _require_events(self, events: DataFrame) -> None:
        """Refuse events without the columns that the sink needs in addition to the time."""

    @abstractmethod
    def _process_due(
        self, due: DataFrame, instant: int, batch: CommitContext
    ) -> AbstractContextManager[tuple[Outcome, DataFrame | None]]:
        """Write the results of the due events; yield the outcome and the events to be retried.

        due: the events, with the column PENDING_BATCH.
        instant: the instant up to which the changelog is complete, in microseconds since 1970.
        """

    def _store_pending(
        self, remaining: DataFrame, batch: CommitContext, batches: Sequence[int]
    ) -> None:
        """Replace the pending events of `batches` by the remaining events, exactly once."""
        if not batches and remaining.isEmpty():
            return
        path = self.pending_table

        def commit(options: CommitOptions) -> None:
            table.require_matching_schema(remaining, path, _PENDING_LAYOUT, evolve=False)
            if not batches:
                table.append(remaining, path, options, _PENDING_LAYOUT)
                return
            replaced = ", ".join(map(str, sorted({*batches, batch.plan.number, _UNMATCHED_BATCH})))
            table.overwrite(remaining, path, options, f"{PENDING_BATCH} IN ({replaced})")

        commit_once(remaining.sparkSession, path, batch, PENDING, commit, {})

    def _write_target(self, rows: DataFrame, count: int, batch: CommitContext) -> Outcome:
        target = Append(self.path, layout=self.layout, output=self.output)
        return target.write({ROWS: rows}, batch, rows_out=count)

    def _complete_until(self, events: Sequence[DataFrame]) -> int | None:
        """Return the instant up to which the changelog is complete, or None."""
        instants = []
        newest_change = self.versions.newest_change_time(events[0].sparkSession)
        if newest_change is not None:
            delay = microseconds(self.watermark_delay, "watermark_delay", min_value=0)
            instants.append(newest_change - delay)
        if self.max_changelog_lag is not None:
            # The newest event overall is either pending or before the progress of the changelog.
            time = quoted_column(self.time)
            times = reduce(DataFrame.unionByName, [each.select(time) for each in events])
            ((newest_event,),) = times.agg(F.max(F.unix_micros(time))).collect()
            if newest_event is not None:
                lag = microseconds(self.max_changelog_lag, "max_changelog_lag", min_value=0)
                instants.append(newest_event - lag)
        return max(instants, default=None)


def _is_batch_committed(
    spark: SparkSession, tables: Sequence[tuple[str, str]], batch: CommitContext
) -> bool:
    """Return whether the last of the tables contains the batch.

    Raises TableMismatchError for tables of another query, or with a later batch.
    """
    last_number = None
    for path, output in tables:
        require_current(spark, path, batch, output)
        last_number = last_batch(spark, path, batch, output)
        if last_number is None and delta_state(spark, path).version >= 0:
            raise TableMismatchError(
                f"table {path} belongs to another query; nothing was written.",
                f"it contains no batch of job {batch.plan.job}, query {batch.plan.query_id}.",
                "restore the checkpoint that wrote the table, or start with new tables.",
            )
    return last_number is not None and last_number >= batch.plan.number
