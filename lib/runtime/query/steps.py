"""The steps of one micro-batch: count and check first, then write, the target last."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...commit import Batch, last_batch, planned, require_current
from ...commit.ledger import Ledger
from ...jvm import dropped_behind_watermark
from ...offsets import EventTimes, of_topics
from ..job import Job
from ..process.stop import Stop
from ..summary import Counted
from ..telemetry.record import Record
from .accounting import check_dropped, check_flood, rows_given, too_late
from .bridge import after_backlog, unread
from .by_log import newest_after, newest_before, tell
from .gaps import Gap, keep_gaps, require_exact, size, skipping, told
from .places import steps
from .reasons import by_reason, reasons
from .recount import Recount
from .side_outputs import Aside, Part, all_set_aside, counted, kept_aside
from .streams import Stream
from .target import Target, counted_rows
from .topics import Topics
from .upkeep import keep_up

_LOG = logging.getLogger(__name__)
_START_SECONDS = 60


@dataclass(frozen=True)
class _Found:
    """What is known of a batch before anything of it is written."""

    batch: Batch
    parts: Sequence[Part]
    aside: Mapping[str, Aside]
    rows_out: int
    gaps: Sequence[Gap]


class Steps:
    """The function that Spark calls with each micro-batch.

    `failure` keeps what went wrong inside, since Spark hands on no more than its text. Dead letters
    and late rows are committed before the target: a batch that the target holds is complete.
    """

    def __init__(
        self,
        job: Job,
        inputs: Mapping[str, Sequence[Stream]],
        topics: Topics,
        stop: Stop,
        record: Record,
        ledger: Ledger,
        recount: Recount,
    ) -> None:
        self._job = job
        self._ledger = ledger
        self._inputs = inputs
        self._topics = topics
        self._stop = stop
        self._record = record
        self._recount = recount
        self.query: Future[StreamingQuery] = Future()
        self.failure: Exception | None = None
        self._begun = False

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Take one batch from its plan to its tables."""
        try:
            with self._stop.during(number):
                self._record.add(self._run(frame, number))
        except Exception as error:
            self.failure = error
            raise

    def _run(self, frame: DataFrame, number: int) -> Counted:
        spark = frame.sparkSession
        query = self.query.result(_START_SECONDS)
        batch = self._planned(spark, query, number)
        try:
            return self._taken(frame, query, batch)
        except Exception as error:
            named = self._topics.explained(error, batch)
            if named is None:
                raise
            raise named from error

    def _taken(self, frame: DataFrame, query: StreamingQuery, batch: Batch) -> Counted:
        spark = frame.sparkSession
        gaps = self._topics.lost(batch)
        newest = newest_before(self._job, self._ledger.identity, self._own(batch))
        tell(spark, newest)
        # A batch with gaps has its records looked up by the rows that were read, and what Spark has
        # dropped of a state's rows is told before any is written.
        kept = bool(gaps) or not self._job.written_as_read
        with counted_rows(self._job, frame, batch, kept=kept) as target:
            self._topics.ask()
            try:
                parts = self._parts(query, batch, newest, gaps)
            finally:
                # A topic that was made again is the reason where numbers do not fit.
                self._topics.require_same(skipping(batch, gaps))
            batch = replace(batch, topics=self._topics.ids)
            batch = replace(batch, newest=newest_after(newest, [part.newer for part in parts]))
            if gaps:
                parts = [replace(part, batch=skipping(part.batch, gaps)) for part in parts]
                require_exact(spark, parts)
            batch, rows_out = self._checked(spark, batch, parts, target.rows_out)
            kept = self._record.detailed
            with all_set_aside(self._job, spark, batch, parts, kept=kept) as aside:
                batch = replace(batch, late=sum(each.late.count for each in aside.values()))
                if self._job.transform is not None and self._job.emission == "final":
                    # Rows that are late by the log are left out before Spark could drop them.
                    left = (batch.late or 0) if newest is None else 0
                    check_dropped(batch, dropped_behind_watermark(query), left)
                found = _Found(batch, parts, aside, rows_out, gaps)
                done = self._written(spark, found, target)
                self._ledger.finished(batch, query.id)
                if not self._stop.asked:
                    keep_up(self._job, spark, batch.number)
                return done

    def _planned(self, spark: SparkSession, query: StreamingQuery, number: int) -> Batch:
        ledger = self._ledger
        ledger.begins(number)
        batch = planned(
            spark,
            self._job.places.checkpoint,
            job=self._job.name,
            query_id=ledger.identity.written_as(query.id),
            run_id=query.runId,
            number=number,
            base=ledger.identity.base,
        )
        batch = replace(batch, epoch=ledger.identity.epoch, plan=ledger.plan, claim=ledger)
        if ledger.identity.backlog is not None:
            batch = after_backlog(batch, ledger.identity.backlog)
        if not self._begun:
            require_tables(self._job, spark, batch)
            self._begun = True
        return batch

    def _own(self, batch: Batch) -> int:
        """Return a batch's number by the checkpoint's own count."""
        return batch.number - self._ledger.identity.base

    def _parts(
        self,
        query: StreamingQuery,
        batch: Batch,
        newest: EventTimes | None,
        gaps: Sequence[Gap],
    ) -> list[Part]:
        """Take the batch apart by its inputs, and check what was counted of each."""
        alone = len(self._job.inputs) == 1
        backlog = self._ledger.identity.backlog
        if backlog is not None and newest is not None and self._own(batch) == 0:
            # What the backlog has read is not read again for what is set aside.
            newest = backlog.newest
        parts = []
        for name, given in self._job.inputs.items():
            own = batch if alone else batch.of(given.reading.source.named)
            if backlog is not None:
                own = unread(own, backlog.end)
            before = None if newest is None else of_topics(newest, own.end)
            # What is gone from the topic cannot be counted.
            again = self._recount.of(name, skipping(own, gaps), before)
            parts.append(counted(query, name, given, self._inputs[name], own, before, again))
        return parts

    def _checked(
        self, spark: SparkSession, batch: Batch, parts: Sequence[Part], rows_out: int | None
    ) -> tuple[Batch, int]:
        """Refuse a batch whose numbers cannot be, or a flood; return it with its numbers."""
        rows_in = sum(part.seen.rows for part in parts)
        dead = sum(part.seen.dead for part in parts)
        for part in parts:
            check_flood(part.batch, part.seen, self._job.limits, partial(reasons, spark, part))
        seen = [part.seen for part in parts]
        given = rows_given(batch, seen, rows_out, one_to_one=self._job.one_to_one)
        times = [self._ledger.identity.latest, *(part.seen.latest for part in parts)]
        latest = max((time for time in times if time is not None), default=None)
        return replace(batch, rows_in=rows_in, dead=dead, latest=latest), given

    def _written(self, spark: SparkSession, found: _Found, target: Target) -> Counted:
        """Write what was lost, then the dead letters and late rows, and the target beside them.

        The target is committed last.
        """
        job, batch = self._job, found.batch
        self._ledger.require_newest()
        self._ledger.require_tables(spark)
        gaps = self._missing(spark, found)
        if gaps:
            _LOG.warning("%s: lost before it was read: %s", job.name, told(gaps))
            keep_gaps(job.places.gaps, spark, batch, gaps)
        alarm = too_late(batch, job.limits)
        if alarm is not None:
            _LOG.warning("%s: %s", job.name, alarm)
        with kept_aside(job, spark, batch, found.aside) as waiting:
            outcome = target.write(waiting, [each.late for each in found.aside.values()])
        why = by_reason(found.aside.values()) if self._record.detailed else {}
        return Counted(
            number=batch.number,
            rows_in=batch.rows_in or 0,
            rows_out=found.rows_out,
            dead=batch.dead or 0,
            late=batch.late or 0,
            corrected=sum(each.late.corrected for each in found.aside.values()),
            clamped=sum(part.seen.clamped for part in found.parts),
            filtered=sum(part.seen.filtered for part in found.parts),
            lost=size(gaps),
            alarm=alarm is not None,
            reached={name: at for part in found.parts for name, at in part.reached.items()},
            reasons=why,
            outcome=outcome,
        )

    def _missing(self, spark: SparkSession, found: _Found) -> Sequence[Gap]:
        """Return the gaps of a batch whose records are in no table, and in no state.

        A batch that runs again may have lost records that the target has already. Of a query with
        state these are missing all the same: its state is made anew out of what is left.
        """
        sink, batch = self._job.sink, found.batch
        if found.gaps and not self._job.keeps_state:
            done = last_batch(spark, sink.path, batch, sink.step)
            if done is not None and done >= batch.number:
                return ()
        return found.gaps


def require_tables(job: Job, spark: SparkSession, first: Batch) -> None:
    """Refuse a run whose checkpoint is older than one of its tables."""
    for step, path in steps(job).items():
        require_current(spark, path, first, step)
