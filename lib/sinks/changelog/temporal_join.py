"""Join events with a table as of their event time, once its changelog is complete up to then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...columns import quoted_column, require_choice, require_instance
from ...commit.batch import CommitContext
from ...commit.protocol import Outcome
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...durations import microseconds
from ...errors import ArgumentError
from ...input_frames import ROWS
from ...joins import stream_table
from ..append import Append
from .versioned_table import PENDING_BATCH, ChangelogSink, VersionedTable

_IS_MATCHED = "__tidegate_matched"
_STATE = "__tidegate_state"
_UNMATCHED_OUTPUT = "misses"


@dataclass(frozen=True)
class TemporalJoin(ChangelogSink):
    """Join events with the version of a table at their event time, exactly once.

    An event waits until the changelog has passed its time: until the newest change, of the slowest
    partition, is more than `watermark_delay` later than the event. It is then joined with the
    version as of its time. An event without a match is retried with each batch until the changelog
    is more than `retry_for` further; then it is unmatched. As long as no change is more than
    `watermark_delay` behind the newest of its partition, the rows equal `stream_table` over the
    complete history, independently of batch boundaries. A later change still applies to pending and
    future events; rows are never updated.

    If the changelog, or one of its partitions, becomes idle, events wait for its next change,
    unless `max_changelog_lag` limits its lag. Before the first change all events wait.

    State, in tables: all versions, or those within `versions.retention` (a later event may not
    match, or match an older version), and the pending events. A batch reads the versions and the
    pending events that are due, and rewrites only files of the latter. No other writer may change
    these tables.

    Four tables are written, each with its own stamp: versions, unmatched events, target, and
    pending events last. Progress is derived from the stored versions, so a batch that runs again
    after a failure between two tables computes the same rows and skips tables that contain it.

    Args:
        path: the target: the columns of the events, then those of the matching version.
        versions: the local copy of the table, with its key and the order of changes.
        pending_table: path of the table of pending events.
        watermark_delay: how far a change may be behind the newest one of its partition.
        how: "left" also writes unmatched events, with nulls; "inner" drops them.
        unmatched: path of a table for the unmatched events of a left join, instead of the target.
        retry_for: how long an event without a match is retried.
        max_changelog_lag: maximum lag of the changelog behind the events: older events are not
            delayed any longer. Measured in event time; as long as it holds, results do not depend
            on batch boundaries. Off by default.
        events, changes: names of the job's inputs.
        time: the time column of the events.
        output, layout: as for `Append`.

    Raises:
        ArgumentError: at construction; for a batch without these inputs.
        ColumnError, ColumnTypeError: if columns are missing, or both sides have them.
        TableError: if columns differ from the table's.
        TableMismatchError: also if versions or pending events belong to another query.
        ConflictError: as for `Append`.

    >>> profiles = VersionedTable("/data/profiles", key="user", order=["offset"])
    >>> sink = TemporalJoin(
    ...     "/data/activity", versions=profiles, pending_table="/data/pending",
    ...     watermark_delay="10 seconds", events="activity", changes="profiles",
    ... )
    >>> [output for _, output in sink.tables()]
    ['versions', 'append', 'waiting']
    """

    plan_name: ClassVar[str] = "temporal_join"
    events_argument: ClassVar[str] = "events"
    path: str
    _: KW_ONLY
    versions: VersionedTable
    pending_table: str
    watermark_delay: str | timedelta
    how: Literal["inner", "left"] = "left"
    unmatched: str | None = None
    retry_for: str | timedelta = "0 seconds"
    max_changelog_lag: str | timedelta | None = None
    events: str = "events"
    changes: str = "changes"
    time: str = "event_time"
    output: str = "append"
    layout: TableLayout = ANY_LAYOUT

    def __post_init__(self) -> None:
        require_instance(self.versions, "versions", VersionedTable, "versions=VersionedTable(...)")
        self._require_valid()
        require_choice(self.how, "how", Literal["inner", "left"])
        if self.how == "inner" and self.unmatched is not None:
            raise ArgumentError(
                f"invalid unmatched: {self.unmatched!r} with how='inner'",
                "None, since an inner join drops unmatched events",
                'how="left"',
            )
        microseconds(self.retry_for, "retry_for", min_value=0)
        retention = self.versions.retention
        if retention is not None and microseconds(retention, "retention", min_value=0) < (
            microseconds(self.watermark_delay, "watermark_delay", min_value=0)
        ):
            raise ArgumentError(
                f"invalid retention: {retention!r}",
                f"at least watermark_delay={self.watermark_delay!r}, which pending events need",
                f"retention={self.watermark_delay!r}",
            )

    @property
    def _unmatched_tables(self) -> list[tuple[str, str]]:
        return [] if self.unmatched is None else [(self.unmatched, _UNMATCHED_OUTPUT)]

    @contextmanager
    def _process_due(
        self, due: DataFrame, instant: int, batch: CommitContext
    ) -> Iterator[tuple[Outcome, DataFrame]]:
        joined = self._join_due(due, instant).persist()
        try:
            outcome = self._append_joined(joined, due.columns, batch)
            retried = joined.where(_has_state("retry"))
            yield outcome, retried.select(*map(quoted_column, due.columns))
        finally:
            joined.unpersist()

    def _complete_until(self, events: Sequence[DataFrame]) -> int | None:
        # Before the first change, the columns of the versions are unknown.
        if not self.versions.exists(events[0].sparkSession):
            return None
        return super()._complete_until(events)

    def _join_due(self, due: DataFrame, complete_micros: int) -> DataFrame:
        """Join the due events; the state of each is matched, unmatched or retry."""
        versions = self.versions.read(due.sparkSession).withColumn(_IS_MATCHED, F.lit(True))
        keys, order = self.versions.keys, self.versions.order
        joined = stream_table(due, versions, keys, how="left", as_of=self.time, order=order)
        retry_micros = F.lit(microseconds(self.retry_for, "retry_for", min_value=0))
        is_expired = F.unix_micros(quoted_column(self.time)) + retry_micros < F.lit(complete_micros)
        # An event without a time never matches.
        is_unmatched = F.coalesce(is_expired, F.lit(True))
        state = F.when(quoted_column(_IS_MATCHED), "matched").when(is_unmatched, "unmatched")
        return joined.withColumn(_STATE, state.otherwise("retry")).drop(_IS_MATCHED)

    def _append_joined(
        self, joined: DataFrame, columns: Sequence[str], batch: CommitContext
    ) -> Outcome:
        counts = {row[0]: row[1] for row in joined.groupBy(_STATE).count().collect()}
        unmatched_count = counts.get("unmatched", 0)
        if self.unmatched is not None and unmatched_count:
            unmatched = joined.where(_has_state("unmatched")).select(*map(quoted_column, columns))
            rows = unmatched.drop(PENDING_BATCH)
            sink = Append(self.unmatched, output=_UNMATCHED_OUTPUT)
            sink.write({ROWS: rows}, batch, rows_out=unmatched_count)

        is_output = _has_state("matched")
        count = counts.get("matched", 0)
        if self.how == "left" and self.unmatched is None:
            is_output = is_output | _has_state("unmatched")
            count += unmatched_count
        if not count:
            return "written"
        rows = joined.where(is_output).drop(_STATE, PENDING_BATCH)
        return self._write_target(rows, count, batch)


def _has_state(state: str) -> Column:
    return quoted_column(_STATE) == state
