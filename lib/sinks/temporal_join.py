"""Events meet a table that is kept current by its changelog, and wait until it has come as far as
they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import microseconds, quoted, require
from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once, last_batch, require_current
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ReplayMismatchError
from ..frames import ROWS, sole
from ..jvm import delta_state
from ..tagged import untagged
from .append import Append
from .version_table import VersionTable

_BATCH, _MET, _STATE = "__tidegate_batch", "__tidegate_met", "__tidegate_state"
_WAITING, _MISSES = "waiting", "misses"
_ASKED = -1
"""The batch under which events wait that were due and met nothing: they are asked for again with
every batch."""


@dataclass(frozen=True)
class TemporalJoin:
    """Join events with the table whose changelog comes beside them, as it was when they happened. Exactly once.

    Takes what `tidegate.tagged.tagged` made of two inputs: the events, and the changelog as a log
    of versions with `valid_from`, `valid_to` and the columns of `versions.order`. `join` is called
    with events and versions and gives all of those events with the columns of the version that each
    met, null where it met none.

    An event waits until the changelog has passed its time: until the newest change, of the slowest
    of its partitions, is more than `lateness` later than the event. It then meets the version as of
    its time. One that meets none is asked for with every further batch, until the changelog is more
    than `patience` further; then it is a miss. Misses go to the table `misses`, or without one to
    the target, with nulls. As long as no change is more than `lateness` behind the newest of its
    partition, rows are those of the same join over the whole history, however the log was cut into
    batches. A change that is later still reaches the events that wait, and those that come after
    it, and no others: rows are not re-issued.

    With a changelog that goes quiet, or one of its partitions, events wait for its next change.
    `lag` says that it is
    no further behind than that: events so long before the newest one are not held back. It goes by
    event time and keeps the answer independent of batches, as long as it holds. Off by default.
    Before the first change everything waits.

    State, in tables: all versions, or by `versions.keep` those that events may still need (an event
    later than that may meet none, or an older one); and the events that wait. A batch reads the
    versions and the waiting events that are due, and rewrites the files of these alone. Nobody else
    may write to the two tables.

    Four tables are written, each under its own stamp: versions, misses, target, and the waiting
    events last, with which the next batch begins. How far the changelog has come is read off the
    versions themselves. So a batch that runs again after a crash between any two of them finds what
    it found before, and skips what is there.

    Raises ArgumentError, ColumnError, ConfigError (columns), ReplayMismatchError (also where
    versions or waiting events are another query's), ConflictError.

    >>> from tidegate.joins import stream_table
    >>> sink = TemporalJoin(
    ...     path="/data/activity", waiting="/data/waiting", lateness="10 seconds",
    ...     versions=VersionTable(path="/data/profiles", on="user", order=["offset"], partition=["partition"]),
    ...     join=lambda events, profiles: stream_table(events, profiles, "user", how="left", as_of="event_time"))
    >>> sink.step
    'append'
    """

    path: str
    _: KW_ONLY
    waiting: str
    versions: VersionTable
    join: Callable[[DataFrame, DataFrame], DataFrame]
    lateness: str | timedelta
    patience: str | timedelta = "0 seconds"
    lag: str | timedelta | None = None
    misses: str | None = None
    events: str = "events"
    changes: str = "changes"
    time: str = "event_time"
    step: str = "append"

    def __post_init__(self) -> None:
        paths = [path for path, _ in self.tables()]
        if len(set(paths)) < len(paths):
            raise ArgumentError(
                f"the tables are {', '.join(paths)}.", "a path of its own for each."
            )
        for name in ("lateness", "patience", "lag"):
            if getattr(self, name) is not None:
                microseconds(getattr(self, name), name, least=0)
        keep = self.versions.keep
        if keep is not None and microseconds(keep, "keep", least=0) < microseconds(
            self.lateness, least=0
        ):
            raise ArgumentError(
                f"keep is {keep!r}, shorter than lateness, {self.lateness!r}: events still wait "
                "for what it forgets.",
                "as long as the lateness, or longer.",
            )

    def tables(self) -> list[tuple[str, str]]:
        """List the versions, the misses where they have a table, the target and the waiting events."""
        misses = [] if self.misses is None else [(self.misses, _MISSES)]
        return [
            (self.versions.path, self.versions.step),
            *misses,
            (self.path, self.step),
            (self.waiting, _WAITING),
        ]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Take up the batch's changes and events, and write the rows that are decided by now."""
        frame = sole(frames)
        spark = frame.sparkSession
        if self._finished(spark, batch):
            return "skipped"
        self.versions.add(untagged(frame, self.changes), batch)
        events = untagged(frame, self.events).withColumn(_BATCH, F.lit(batch.number))
        require(events, [self.time], "time")
        held = self._held(events)
        reached = self._reached(events, held)
        if reached is None:
            self._keep(events, batch, [])
            return "written"
        due = F.coalesce(quoted(self.time) < F.timestamp_micros(F.lit(reached)), F.lit(True))
        opened = sorted(row[0] for row in held.where(due).select(_BATCH).distinct().collect())
        candidates = events.unionByName(held.where(quoted(_BATCH).isin(opened)))
        asked = self._asked(candidates.where(due), reached).persist()
        try:
            outcome = self._issue(asked, events.columns, batch)
            again = asked.where(quoted(_STATE) == "again").select(*map(quoted, events.columns))
            later = candidates.where(~due).unionByName(again.withColumn(_BATCH, F.lit(_ASKED)))
            self._keep(later, batch, opened)
        finally:
            asked.unpersist()
        return outcome

    def _finished(self, spark: SparkSession, batch: Batch) -> bool:
        """Return whether the batch is in the last of the tables; refuse tables of another query, or
        of a later batch."""
        misses = [] if self.misses is None else [(self.misses, _MISSES)]
        last = None
        for path, step in [
            (self.versions.path, self.versions.step),
            *misses,
            (self.waiting, _WAITING),
        ]:
            require_current(spark, path, batch, step)
            last = last_batch(spark, path, batch, step)
            if last is None and delta_state(spark, path).version >= 0:
                raise ReplayMismatchError(
                    f"{path} has no batch of {batch.job}, query {batch.query_id}: it is another "
                    "query's.",
                    "tables that this query's checkpoint began with.",
                    "restore that checkpoint, or start with new tables; nothing was written.",
                )
        return last is not None and last >= batch.number

    def _held(self, events: DataFrame) -> DataFrame:
        """Return the events that wait, with the batch that they came with."""
        spark = events.sparkSession
        if delta_state(spark, self.waiting).version < 0:
            return events.where(F.lit(False))
        return spark.read.format("delta").load(self.waiting)

    def _reached(self, events: DataFrame, held: DataFrame) -> int | None:
        """Return the instant before which events are due, in microseconds since 1970; None before
        the first change."""
        newest = self.versions.newest(events.sparkSession)
        if newest is None:
            return None
        reached = newest - microseconds(self.lateness, "lateness", least=0)
        if self.lag is None:
            return reached
        # The newest event of all is still among these, or the changelog has long passed it.
        times = events.select(self.time).unionByName(held.select(self.time))
        last = times.agg(F.max(F.unix_micros(self.time))).collect()[0][0]
        return (
            reached if last is None else max(reached, last - microseconds(self.lag, "lag", least=0))
        )

    def _asked(self, due: DataFrame, reached: int) -> DataFrame:
        """Join the events that are due, and tell what becomes of each: met, missed, or asked for
        again."""
        versions = self.versions.read(due.sparkSession).withColumn(_MET, F.lit(True))
        waited = F.unix_micros(self.time) + F.lit(microseconds(self.patience, "patience", least=0))
        missed = F.coalesce(waited < F.lit(reached), F.lit(True))
        state = F.when(quoted(_MET), "met").when(missed, "missed").otherwise("again")
        return self.join(due, versions).withColumn(_STATE, state).drop(_MET)

    def _issue(self, asked: DataFrame, columns: Sequence[str], batch: Batch) -> Outcome:
        """Write the misses, and then the rows of the target."""
        counts = {row[0]: row[1] for row in asked.groupBy(_STATE).count().collect()}
        met, missed = (counts.get(state, 0) for state in ("met", "missed"))
        if self.misses is not None and missed:
            rows = (
                asked.where(quoted(_STATE) == "missed").select(*map(quoted, columns)).drop(_BATCH)
            )
            Append(self.misses, step=_MISSES).write({ROWS: rows}, batch, rows_out=missed)
        issued = ["met"] if self.misses is not None else ["met", "missed"]
        count = met if self.misses is not None else met + missed
        if not count:
            return "written"
        rows = asked.where(quoted(_STATE).isin(issued)).drop(_BATCH, _STATE)
        return Append(self.path, step=self.step).write({ROWS: rows}, batch, rows_out=count)

    def _keep(self, later: DataFrame, batch: Batch, opened: Sequence[int]) -> None:
        """Let events wait, in place of all that waited since the batches that were opened."""
        if not opened and later.isEmpty():
            return

        def write(options: CommitOptions) -> None:
            table.existing(later, self.waiting, [_BATCH], evolve=False)
            if not opened:
                table.append(later, self.waiting, [_BATCH], options)
                return
            replaced = ", ".join(str(number) for number in sorted({*opened, batch.number, _ASKED}))
            writer = options.on(table.plain(later).write.format("delta").mode("overwrite"))
            writer.option("replaceWhere", f"{_BATCH} IN ({replaced})").save(self.waiting)

        commit_once(later.sparkSession, self.waiting, batch, _WAITING, write, {})
