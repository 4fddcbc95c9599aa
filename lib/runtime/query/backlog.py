"""A backlog worked off as one batch, before the stream of a new checkpoint begins.

What the batch reads is noted with the checkpoint before anything of it is written, and its rows
are batch 0 of the tables, by a query's id that the stream goes on with. So a start after a crash
does the same batch again, and each table takes it once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ...commit import Batch
from ...commit.identity import NEVER
from ...commit.ledger import Ledger
from ...commit.origins import Backlog
from ...offsets import EventTimes
from ...sources.reached import Reached
from ..job import Job
from ..limits import Limits
from ..process.failures import plain
from ..summary import Counted
from ..telemetry.record import Record
from . import reread
from .accounting import check_flood, rows_given, tally
from .batch_zero import batch_of, is_done
from .by_log import by_log
from .frames import streaming
from .gaps import require_there
from .reasons import reasons
from .recount import Recount
from .side_outputs import Part, all_set_aside, kept_aside
from .streams import streams
from .target import Target, counted_rows
from .topics import Topics
from .unread import in_sessions, planned

_LOG = logging.getLogger(__name__)


def work_off(job: Job, spark: SparkSession, ledger: Ledger, newest: int, record: Record) -> None:
    """Write what a backlog gives as one batch, where a job asks for it and its checkpoint is new.

    newest: the last batch that the checkpoint has planned; one that has any is not new. A backlog
    that was begun is finished, whatever the job says now.

    Raises the library's errors, before anything is written; see `run`.
    """
    if newest != NEVER or ledger.identity.resumed is not None:
        return
    backlog = ledger.identity.backlog
    if backlog is None:
        backlog = planned(job, spark)
    elif is_done(job, spark, ledger, backlog):
        return
    if backlog is None:
        return
    with Topics(job, streams(job, spark), spark, ledger.identity.topics) as topics:
        work = _Work(job, spark, ledger, topics, backlog)
        try:
            counted = work.done(begun=ledger.identity.backlog is not None)
        except Exception as error:
            named = topics.explained(error, work.batch)
            if named is None and isinstance(error, PySparkException | OSError):
                named = plain(error)
            if named is None:
                raise
            raise named from error
    if counted is not None:
        record.add(counted)


@dataclass
class _Work:
    """One backlog in the works."""

    job: Job
    spark: SparkSession
    ledger: Ledger
    topics: Topics
    backlog: Backlog

    @property
    def batch(self) -> Batch:
        """The batch, without its counts."""
        return batch_of(self.job, self.ledger, self.backlog)

    def done(self, *, begun: bool) -> Counted | None:
        """Read, check and write the batch; None where the stream has to read everything.

        begun: whether it is noted already, by a start before this one.
        """
        self._require_there()
        recount = Recount(self.job, self.spark)
        seen = {name: Observation() for name in self.job.inputs}
        reached = {} if begun else self._reached()
        rows = streaming(self.job, self._frames(seen, reached))
        out = rows if self.backlog.until is None else rows.where(self._is_out)
        # Sessions that are not the batch's are looked at too.
        kept = in_sessions(self.job) or not self.job.written_as_computed
        with counted_rows(self.job, out, self.batch, kept=kept, whole=rows) as target:
            counts = {name: observation.get for name, observation in seen.items()}
            if reached and not self._reads_again(rows, reached):
                return None
            parts = [self._part(name, counts[name], recount) for name in self.job.inputs]
            return self._written(target, parts, begun=begun)

    def _reached(self) -> dict[str, Reached]:
        """Return what is to be known of each input's partitions for the stream after the batch."""
        until = self.backlog.until
        if until is None:
            return {}
        return {name: self._reached_of(name, until) for name in self.job.inputs}

    def _reached_of(self, name: str, until: int) -> Reached:
        own = self._own(name)
        since = reread.since(self.job, until, name)
        return Reached(own.start, own.end, since, times=self.job.by_log)

    def _frames(
        self, seen: Mapping[str, Observation], reached: Mapping[str, Reached]
    ) -> dict[str, DataFrame]:
        late = by_log(self.job)
        frames = {}
        for name, given in self.job.inputs.items():
            own = self._own(name)
            frames[name] = given.reading.batch(
                self.spark,
                own.start,
                own.end,
                seen[name],
                by_log=late.get(name),
                reached=reached.get(name),
            )
        return frames

    def _reads_again(self, rows: DataFrame, reached: Mapping[str, Reached]) -> bool:
        """Let the stream begin where its results need it to; False where it has to read all."""
        first = reread.united(each.first() for each in reached.values())
        self.backlog = replace(self.backlog, again=first)
        if in_sessions(self.job):
            (guess,) = {each.since for each in reached.values()}
            waiting = rows.where(~self._is_out)
            again = reread.of_sessions(self.job, self.spark, self.backlog, waiting, guess)
            if again is None:
                return False
            self.backlog = replace(self.backlog, again=again)
        if self.job.by_log:
            newest = reread.united(each.newest() for each in reached.values())
            self.backlog = replace(self.backlog, newest=newest)
        return True

    def _written(self, target: Target, parts: Sequence[Part], *, begun: bool) -> Counted:
        """Check the numbers, and write the dead letters and the target."""
        job = self.job
        rows_in = sum(part.seen.rows for part in parts)
        dead = sum(part.seen.dead for part in parts)
        for part in parts:
            limits = _scaled(job.limits, part)
            check_flood(part.batch, part.seen, limits, partial(reasons, self.spark, part))
        seen = [part.seen for part in parts]
        number = rows_given(self.batch, seen, target.rows_out, one_to_one=job.one_to_one)
        self._require_there()
        self.topics.require_same(self.batch)
        if not begun:
            self.ledger.plans(self.backlog)
        latest = max((p.seen.latest for p in parts if p.seen.latest is not None), default=None)
        batch = replace(self.batch, rows_in=rows_in, dead=dead, latest=latest)
        batch = replace(batch, topics=self.topics.ids)
        self.ledger.require_newest()
        self.ledger.require_tables(self.spark)
        with all_set_aside(job, self.spark, batch, parts) as aside:
            late = sum(each.late.count for each in aside.values())
            batch = replace(batch, late=late)
            with kept_aside(job, self.spark, batch, aside) as waiting:
                outcome = target.write(waiting, [])
        self.ledger.worked_off(latest)
        _LOG.info("%s: a backlog of %s rows was worked off", job.name, f"{rows_in:,}")
        return Counted(
            number=0,
            rows_in=rows_in,
            rows_out=number,
            dead=dead,
            late=late,
            clamped=sum(part.seen.clamped for part in parts),
            filtered=sum(part.seen.filtered for part in parts),
            reached={},
            outcome=outcome,
        )

    @property
    def _is_out(self) -> Column:
        """Which results are the batch's, and not the stream's."""
        time = None if self.job.transform is None else self.job.transform.result_time
        if time is None or self.backlog.until is None:
            return F.lit(True)
        return time < F.timestamp_micros(F.lit(self.backlog.until))

    def _part(self, name: str, counts: dict[str, int], recount: Recount) -> Part:
        own = self._own(name)
        given = self.job.inputs[name]
        # The batch begins with the first record that counts.
        newest: EventTimes | None = {} if given.by_log else None
        seen = tally(own, [counts], recount.of(name, own, newest))
        return Part(name, given, own, seen, {}, newest)

    def _own(self, name: str) -> Batch:
        if len(self.job.inputs) == 1:
            return self.batch
        return self.batch.of(self.job.inputs[name].reading.source.named)

    def _require_there(self) -> None:
        """Refuse topics that have lost some of the batch."""
        for name, given in self.job.inputs.items():
            require_there(self.spark, given.reading.source, self._own(name))


def _scaled(limits: Limits, part: Part) -> Limits:
    """Return the limits for as many rows as the stream would read in several batches."""
    most = part.input.reading.source.max_rows
    if limits.dead_rows is None or most is None:
        return limits
    return replace(limits, dead_rows=limits.dead_rows * max(1, ceil(part.seen.rows / most)))
