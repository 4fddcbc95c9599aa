"""The steps of one micro-batch, in the order that exactly-once needs: count and check first, then write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import TidegateError
from ..jvm import observed
from ..sinks import Batch, Rejected, planned, require_current, tables
from .accounting import Observed, check_flood, check_stateless, tally
from .failures import plain
from .job import Counted, Input, Job, Summary
from .stop import Stop
from .streams import Stream

_START_SECONDS = 60


class Steps:
    """The function that Spark calls with each micro-batch.

    `failure` keeps what went wrong inside, since Spark hands on no more than its text. Rejected rows are written before
    the target: a batch that the target holds is complete.
    """

    def __init__(self, job: Job, inputs: Sequence[Sequence[Stream]], stop: Stop, summary: Summary) -> None:
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
        batch = planned(spark, job.checkpoint, job=job.name, query_id=query.id, run_id=query.runId, number=number)
        if not self._begun:
            require_tables(job, spark, batch)
            self._begun = True
        frame.persist()
        try:
            rows_out = frame.count()
            parts = self._parts(query, batch)
            rows_in, dead = (sum(getattr(part.seen, name) for part in parts) for name in ("rows", "dead"))
            for part in parts:
                check_flood(part.batch, part.seen, job.limits, partial(reasons, spark, part))
            if job.stateless:
                check_stateless(batch, rows_in, dead, rows_out)
            batch = replace(batch, rows_in=rows_in, dead=dead)
            keep_dead(job.dead, spark, batch, parts)
            late = sum(keep_late(spark, batch, part) for part in parts)
            # An empty result needs no commit; the first one makes the table, and shows at once whether it is ours.
            empty = not rows_out and number > 0
            batch = replace(batch, late=late)
            outcome = "empty" if empty else job.sink.write(frame, batch, rows_out=rows_out)
        finally:
            frame.unpersist()
        return Counted(
            number=number,
            rows_in=rows_in,
            rows_out=rows_out,
            dead=dead,
            late=late,
            reached={name: mark for part in parts for name, mark in part.reached.items()},
            outcome=outcome,
        )

    def _parts(self, query: StreamingQuery, batch: Batch) -> list[Part]:
        """Take the batch apart by its inputs, and check what was counted of each."""
        alone = len(self._job.inputs) == 1
        return [
            counted(query, given, streams, batch if alone else batch.of(given.reading.source.named))
            for given, streams in zip(self._job.inputs, self._inputs, strict=True)
        ]


@dataclass(frozen=True)
class Part:
    """What a batch has of one input: its offsets, what was counted of them, and each stream's own watermark."""

    input: Input
    batch: Batch
    seen: Observed
    reached: Mapping[str, int | None]


def counted(query: StreamingQuery, given: Input, streams: Sequence[Stream], batch: Batch) -> Part:
    """Add up what was counted of an input's streams, and check it."""
    counts = [(stream, observed(query, stream.observation)) for stream in streams]
    latest = [(stream, None if found is None else found["latest"]) for stream, found in counts]
    reached = {stream.name: None if at is None else at - stream.lateness for stream, at in latest}
    return Part(given, batch, tally(batch, [found for _, found in counts if found is not None]), reached)


def require_tables(job: Job, spark: SparkSession, first: Batch) -> None:
    """Refuse a run whose checkpoint is older than one of its tables."""
    rejected = [job.dead, *[given.late for given in job.inputs]]
    for path, step in [*tables(job.sink), *[(kept.path, kept.step) for kept in rejected if kept is not None]]:
        require_current(spark, path, first, step)


def keep_dead(table: Rejected, spark: SparkSession, batch: Batch, parts: Sequence[Part]) -> None:
    """Write the rows of all inputs that could not be read."""
    found = [dead_rows(spark, part) for part in parts if part.seen.dead]
    if found:
        table.write(reduce(DataFrame.unionByName, found), batch, expected=batch.dead)


def keep_late(spark: SparkSession, batch: Batch, part: Part) -> int:
    """Write the rows of an input that the transform no longer took to their late table, and give their number."""
    given, watermark = part.input, batch.late_watermark
    if given.late is None or given.closes is None or part.seen.earliest is None:
        return 0
    if part.seen.earliest >= watermark.timestamp() * 1_000_000:
        return 0
    rows = given.reading.rows(spark, part.batch.start, part.batch.end).withColumns(
        {"closes": given.closes, "watermark": F.lit(watermark)}
    )
    late = rows.where(F.col("closes") <= F.col("watermark")).persist()
    try:
        count = late.count()
        if count:
            given.late.write(late, batch, expected=count)
        return count
    finally:
        late.unpersist()


def dead_rows(spark: SparkSession, part: Part) -> DataFrame:
    """Give the rows of an input's offsets that could not be read."""
    return part.input.reading.dead(spark, part.batch.start, part.batch.end)


def reasons(spark: SparkSession, part: Part) -> list[str]:
    """Give the commonest reasons for which rows could not be read."""
    dead = dead_rows(spark, part).groupBy("stage", "reason")
    top = dead.agg(F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first"))
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset {row['first']['offset']})"
        for row in top.orderBy(F.desc("n")).limit(5).collect()
    ]


def cause(failure: Exception | None, told: Exception) -> TidegateError:
    """Give the library's error for a failure inside a batch, or else for what Spark told of the query."""
    return failure if isinstance(failure, TidegateError) else plain(failure or told)
