"""The steps of one micro-batch, in the order that exactly-once needs: count and check first, then write."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import TidegateError
from ..jvm import observed
from ..sinks import Batch, planned, require_current, tables
from ..sources.reading import OBSERVATION
from .accounting import Observed, check_flood, check_stateless, tally
from .failures import plain
from .job import Counted, Job, Summary
from .stop import Stop

_START_SECONDS = 60


class Steps:
    """The function that Spark calls with each micro-batch.

    `failure` keeps what went wrong inside, since Spark hands on no more than its text. Rejected rows are written before
    the target: a batch that the target holds is complete.
    """

    def __init__(self, job: Job, stop: Stop, summary: Summary) -> None:
        self._job, self._stop, self._summary = job, stop, summary
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
        batch = planned(spark, job.checkpoint, job=job.name, query_id=query.id, run_id=query.runId, number=number)
        if not self._begun:
            require_tables(job, spark, batch)
            self._begun = True
        frame.persist()
        try:
            rows_out = frame.count()
            seen = tally(batch, observed(query, OBSERVATION))
            check_flood(batch, seen, job.limits, lambda: reasons(job, spark, batch))
            if job.stateless:
                check_stateless(batch, seen, rows_out)
            batch = replace(batch, rows_in=seen.rows, dead=seen.dead)
            if seen.dead:
                job.dead.write(job.reading.dead(spark, batch.start, batch.end), batch, expected=seen.dead)
            late = keep_late(job, spark, batch, seen)
            # An empty result needs no commit; the first one makes the table, and shows at once whether it is ours.
            empty = not rows_out and number > 0
            batch = replace(batch, late=late)
            outcome = "empty" if empty else job.sink.write(frame, batch, rows_out=rows_out)
        finally:
            frame.unpersist()
        return Counted(
            number=number,
            rows_in=seen.rows,
            rows_out=rows_out,
            dead=seen.dead,
            late=late,
            latest=seen.latest,
            outcome=outcome,
        )


def require_tables(job: Job, spark: SparkSession, first: Batch) -> None:
    """Refuse a run whose checkpoint is older than one of its tables."""
    rejected = [(kept.path, kept.step) for kept in (job.dead, job.late) if kept is not None]
    for path, step in [*tables(job.sink), *rejected]:
        require_current(spark, path, first, step)


def keep_late(job: Job, spark: SparkSession, batch: Batch, seen: Observed) -> int:
    """Write the rows that the batch's windows no longer took to the late table, and give their number."""
    if job.late is None or job.closes is None or seen.earliest is None:
        return 0
    watermark = batch.late_watermark
    if seen.earliest >= watermark.timestamp() * 1_000_000:
        return 0
    rows = job.reading.rows(spark, batch.start, batch.end).withColumns(
        {"closes": job.closes, "watermark": F.lit(watermark)}
    )
    late = rows.where(F.col("closes") <= F.col("watermark")).persist()
    try:
        count = late.count()
        if count:
            job.late.write(late, batch, expected=count)
        return count
    finally:
        late.unpersist()


def reasons(job: Job, spark: SparkSession, batch: Batch) -> list[str]:
    """Give the commonest reasons for which the batch's rows could not be read."""
    dead = job.reading.dead(spark, batch.start, batch.end).groupBy("stage", "reason")
    top = dead.agg(F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first"))
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset {row['first']['offset']})"
        for row in top.orderBy(F.desc("n")).limit(5).collect()
    ]


def cause(failure: Exception | None, told: Exception) -> TidegateError:
    """Give the library's error for a failure inside a batch, or else for what Spark told of the query."""
    return failure if isinstance(failure, TidegateError) else plain(failure or told)
