"""The steps of one micro-batch, in the order that exactly-once needs: count and check first, then
write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...commit import Batch, planned, require_current
from ...errors import TidegateError
from ..job import Counted, Job, Summary
from ..process.failures import plain
from ..process.stop import Stop
from .accounting import check_flood, check_stateless, too_late
from .side_outputs import Late, Part, counted, keep_dead, keep_late, reasons
from .streams import Stream

_START_SECONDS = 60


class Steps:
    """The function that Spark calls with each micro-batch.

    `failure` keeps what went wrong inside, since Spark hands on no more than its text. Rejected
    rows are written before
    the target: a batch that the target holds is complete.
    """

    def __init__(
        self, job: Job, inputs: Sequence[Sequence[Stream]], stop: Stop, summary: Summary
    ) -> None:
        self._job, self._inputs, self._stop, self._summary = job, inputs, stop, summary
        self.query: Future[StreamingQuery] = Future()
        self.failure: Exception | None = None
        self._begun = False

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Take one batch from its plan to its tables."""
        try:
            with self._stop.during(number):
                self._summary.add(self._run(frame, number))
        except Exception as error:
            self.failure = error
            raise

    def _run(self, frame: DataFrame, number: int) -> Counted:
        job, spark = self._job, frame.sparkSession
        query = self.query.result(_START_SECONDS)
        batch = planned(
            spark,
            job.checkpoint,
            job=job.name,
            query_id=query.id,
            run_id=query.runId,
            number=number,
        )
        if not self._begun:
            require_tables(job, spark, batch)
            self._begun = True
        late: list[Late] = []
        frame.persist()
        try:
            rows_out = frame.count()
            parts = self._parts(query, batch)
            batch = self._checked(spark, batch, parts, rows_out)
            keep_dead(job.dead, spark, batch, parts)
            late += [keep_late(job, spark, batch, part) for part in parts]
            batch = replace(batch, late=sum(each.count for each in late))
            alarm = too_late(batch, job.limits)
            if alarm is not None:
                print(f"warning: {job.name}: {alarm}", file=sys.stderr)
            outcome = self._write(frame, batch, late, rows_out)
        finally:
            frame.unpersist()
            for each in late:
                each.release()
        return Counted(
            number=number,
            rows_in=batch.rows_in or 0,
            rows_out=rows_out,
            dead=batch.dead or 0,
            late=batch.late or 0,
            corrected=sum(each.corrected for each in late),
            clamped=sum(part.seen.clamped for part in parts),
            alarm=alarm is not None,
            reached={name: mark for part in parts for name, mark in part.reached.items()},
            outcome=outcome,
        )

    def _checked(
        self, spark: SparkSession, batch: Batch, parts: Sequence[Part], rows_out: int
    ) -> Batch:
        """Refuse a batch whose numbers cannot be, or that is flooded, and give it with its
        numbers."""
        rows_in, dead = (
            sum(getattr(part.seen, name) for part in parts) for name in ("rows", "dead")
        )
        for part in parts:
            check_flood(part.batch, part.seen, self._job.limits, partial(reasons, spark, part))
        if self._job.stateless:
            check_stateless(batch, rows_in, dead, rows_out)
        return replace(batch, rows_in=rows_in, dead=dead)

    def _write(self, frame: DataFrame, batch: Batch, late: Sequence[Late], rows_out: int) -> str:
        job, rows = self._job, frame
        for each in late:
            rows = each.applied(job, rows)
        # An empty result needs no commit; the first one makes the table, and shows at once whether
        # it is ours.
        empty = not rows_out and batch.number > 0 and job.corrections is None
        return "empty" if empty else job.sink.write({"rows": rows}, batch, rows_out=rows_out)

    def _parts(self, query: StreamingQuery, batch: Batch) -> list[Part]:
        """Take the batch apart by its inputs, and check what was counted of each."""
        alone = len(self._job.inputs) == 1
        return [
            counted(query, given, streams, batch if alone else batch.of(given.reading.source.named))
            for given, streams in zip(self._job.inputs, self._inputs, strict=True)
        ]


def require_tables(job: Job, spark: SparkSession, first: Batch) -> None:
    """Refuse a run whose checkpoint is older than one of its tables."""
    rejected = [job.dead, *[given.late for given in job.inputs]]
    for path, step in [
        *job.sink.tables(),
        *[(kept.path, kept.step) for kept in rejected if kept is not None],
    ]:
        require_current(spark, path, first, step)


def cause(failure: Exception | None, told: Exception) -> TidegateError:
    """Return the library's error for a failure inside a batch, or else for what Spark told of the
    query."""
    return failure if isinstance(failure, TidegateError) else plain(failure or told)
