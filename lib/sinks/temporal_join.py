"""Events meet a table as it was when they happened.

They wait until the table's changelog has come so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted, require, require_storable
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.outcome import Outcome
from ..durations import microseconds
from ..errors import ArgumentError
from ..frames import ROWS, named
from ..joins import stream_table
from ._changelog import finished, is_due, passed
from ._targets import require_apart, require_target
from ._waiting_events import WAITING, WaitingEvents
from .append import Append
from .version_table import VersionTable

_MET = "__tidegate_met"
_STATE = "__tidegate_state"
_MISSES = "misses"


@dataclass(frozen=True)
class TemporalJoin:
    """Join events, exactly once, with a table as its changelog says it was when they happened.

    An event waits until the changelog has passed its time: until the newest change, of the slowest
    of its partitions, is more than `lateness` later than the event. It then meets the version as of
    its time. An event that meets none is tried with every further batch, until the changelog is
    more than `patience` further; then it is a miss. As long as no change is more than `lateness`
    behind the newest of its partition, rows are those of `stream_table` over the whole history,
    however the log was cut into batches. A change that is later still reaches the events that wait,
    and those that come after it, and no others: rows are not re-issued.

    With a changelog that goes quiet, or one of its partitions, events wait for its next change,
    unless `lag` says how far it can be behind. Before the first change everything waits.

    State, in tables: all versions, or by `versions.keep` those that events may still need (an event
    later than that may meet none, or an older one); and the events that wait. A batch reads the
    versions and the waiting events that are due, and rewrites the files of these alone. Nobody else
    may write to the two tables.

    Four tables are written, each under its own stamp: versions, misses, target, and the waiting
    events last, with which the next batch begins. How far the changelog has come is read off the
    versions themselves. So a batch that runs again after a crash between any two of them finds what
    it found before, and skips what is there.

    Args:
        path: the target: the events' columns, then those of the version that each met.
        versions: the table's local copy, with its key and the order of its changes.
        waiting: the table of the events that wait.
        lateness: how far a change may be behind the newest one of its partition.
        how: "left" lets misses come out too, with nulls; "inner" drops them.
        misses: a table for the misses of a left join, which then are not in the target.
        patience: how much longer an event is tried that meets no version.
        lag: how far the changelog can be behind the events: events so long before the newest one
            are not held back. It goes by event time and keeps the answer independent of batches, as
            long as it holds. Off by default.
        events, changes: the names of the job's inputs.
        time: the events' time column.
        layout: how the target is laid out.

    Raises:
        ArgumentError: at construction; and for a batch without these inputs.
        ColumnError, ColumnTypeError: for columns that are not there, or that both sides have.
        TableError: for other columns than the tables have.
        ReplayMismatchError: also where versions or waiting events are another query's.
        ConflictError: where another writer of a table came between.

    >>> place = {"order": ["offset"], "partition": ["partition"]}
    >>> profiles = VersionTable("/data/profiles", on="user", **place)
    >>> sink = TemporalJoin("/data/activity", versions=profiles, waiting="/data/waiting",
    ...                     lateness="10 seconds", events="activity", changes="profiles")
    >>> [step for _, step in sink.tables()]
    ['versions', 'append', 'waiting']
    """

    path: str
    _: KW_ONLY
    versions: VersionTable
    waiting: str
    lateness: str | timedelta
    how: Literal["inner", "left"] = "left"
    misses: str | None = None
    patience: str | timedelta = "0 seconds"
    lag: str | timedelta | None = None
    events: str = "events"
    changes: str = "changes"
    time: str = "event_time"
    step: str = "append"
    layout: Layout = ANY

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)
        require_apart(self.tables())
        if self.how not in ("inner", "left"):
            raise ArgumentError(f"how is {self.how!r}.", "'inner' or 'left'.")
        if self.how == "inner" and self.misses is not None:
            raise ArgumentError(
                f"misses is {self.misses!r}, and an inner join drops them.",
                "a table for the misses of a left join.",
                "how='left'",
            )
        microseconds(self.patience, "patience", least=0)
        if self.lag is not None:
            microseconds(self.lag, "lag", least=0)
        lateness = microseconds(self.lateness, "lateness", least=0)
        keep = self.versions.keep
        if keep is not None and microseconds(keep, "keep", least=0) < lateness:
            raise ArgumentError(
                f"keep is {keep!r}, shorter than lateness, {self.lateness!r}: events still wait "
                "for what it forgets.",
                "as long as the lateness, or longer.",
            )

    def tables(self) -> list[tuple[str, str]]:
        """List the tables: versions, misses where they have one, target, waiting events."""
        return [*self._before_target(), (self.path, self.step), (self.waiting, WAITING)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Take up the batch's changes and events, and write the events that are decided by now."""
        changes = named(frames, self.changes, "changes")
        events = named(frames, self.events, "events")
        require(events, [self.time], "time")
        require_storable(events.columns, f"the input {self.events}")
        tables = [*self._before_target(), (self.waiting, WAITING)]
        if finished(events.sparkSession, tables, batch):
            return "skipped"

        self.versions.add(changes, batch)
        waiting = WaitingEvents(self.waiting)
        arrived = waiting.arrived(events, batch)
        held = waiting.held(arrived)
        instant = self._passed(arrived, held)
        if instant is None:
            waiting.store(arrived, batch, [])
            return "written"
        return self._decide(arrived, held, instant, batch)

    def _decide(self, arrived: DataFrame, held: DataFrame, instant: int, batch: Batch) -> Outcome:
        """Write the events that are due by now, and store those that wait on."""
        waiting = WaitingEvents(self.waiting)
        due = is_due(self.time, instant)
        opened = waiting.opened(held, due)
        candidates = arrived.unionByName(waiting.of(held, opened))
        tried = self._tried(candidates.where(due), instant).persist()
        try:
            outcome = self._issue(tried, arrived.columns, batch)
            again = tried.where(_is("again")).select(*map(quoted, arrived.columns))
            later = candidates.where(~due).unionByName(waiting.unmatched(again))
            waiting.store(later, batch, opened)
        finally:
            tried.unpersist()
        return outcome

    def _before_target(self) -> list[tuple[str, str]]:
        misses = [] if self.misses is None else [(self.misses, _MISSES)]
        return [(self.versions.path, self.versions.step), *misses]

    def _passed(self, arrived: DataFrame, held: DataFrame) -> int | None:
        """Return the instant that the changelog has passed; None before the first change."""
        newest = self.versions.newest(arrived.sparkSession)
        if newest is None:
            return None
        events = [arrived, held]
        return passed(newest, events, self.time, lateness=self.lateness, lag=self.lag)

    def _tried(self, due: DataFrame, passed: int) -> DataFrame:
        """Join the events that are due.

        Each is then met, missed, or to be tried again.
        """
        versions = self.versions.read(due.sparkSession).withColumn(_MET, F.lit(True))
        joined = stream_table(
            due,
            versions,
            self.versions.keys,
            how="left",
            as_of=self.time,
            order=self.versions.order,
        )
        patience = F.lit(microseconds(self.patience, "patience", least=0))
        given_up = F.unix_micros(quoted(self.time)) + patience < F.lit(passed)
        # An event without a time meets nothing, however long it is tried.
        missed = F.coalesce(given_up, F.lit(True))
        state = F.when(quoted(_MET), "met").when(missed, "missed").otherwise("again")
        return joined.withColumn(_STATE, state).drop(_MET)

    def _issue(self, tried: DataFrame, columns: Sequence[str], batch: Batch) -> Outcome:
        """Write the misses to their table, and then the rows of the target."""
        counts = {row[0]: row[1] for row in tried.groupBy(_STATE).count().collect()}
        missed = counts.get("missed", 0)
        waiting = WaitingEvents(self.waiting)
        if self.misses is not None and missed:
            events = tried.where(_is("missed")).select(*map(quoted, columns))
            misses = Append(self.misses, step=_MISSES)
            misses.write({ROWS: waiting.plain(events)}, batch, rows_out=missed)

        issued = _is("met")
        count = counts.get("met", 0)
        if self.how == "left" and self.misses is None:
            issued = issued | _is("missed")
            count += missed
        if not count:
            return "written"
        rows = tried.where(issued).drop(_STATE)
        target = Append(self.path, layout=self.layout, step=self.step)
        return target.write({ROWS: waiting.plain(rows)}, batch, rows_out=count)


def _is(state: str) -> Column:
    return quoted(_STATE) == state
