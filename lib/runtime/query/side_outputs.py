"""Rows of a batch that are set aside: those that cannot be read, and those that are late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...columns import microseconds
from ...commit import Batch
from ...commit.batch import EPOCH
from ...jvm import observed
from ...sinks import SideTable
from ..job import Input, Job
from .accounting import Observed, tally
from .streams import Stream


@dataclass(frozen=True)
class Part:
    """What a batch has of one input: its offsets, what was counted of them, and each stream's own
    watermark."""

    input: Input
    batch: Batch
    seen: Observed
    reached: Mapping[str, int | None]


def counted(query: StreamingQuery, given: Input, streams: Sequence[Stream], batch: Batch) -> Part:
    """Add up what was counted of an input's streams, and check it."""
    counts = [(stream, observed(query, stream.observation)) for stream in streams]
    latest = [(stream, None if found is None else found["latest"]) for stream, found in counts]
    reached = {stream.name: None if at is None else at - stream.lateness for stream, at in latest}
    return Part(
        given, batch, tally(batch, [found for _, found in counts if found is not None]), reached
    )


def keep_dead(table: SideTable, spark: SparkSession, batch: Batch, parts: Sequence[Part]) -> None:
    """Write the rows of all inputs that could not be read."""
    found = [dead_rows(spark, part) for part in parts if part.seen.dead]
    if found:
        table.write(reduce(DataFrame.unionByName, found), batch, expected=batch.dead)


@dataclass(frozen=True)
class Late:
    """A batch's late rows of one input: how many, how many of them still change windows, and the rows.

    What closed at or before `since` is too late for anything. The rows are kept in memory until
    `release`."""

    count: int = 0
    corrected: int = 0
    rows: DataFrame | None = None
    closes: Column | None = None
    since: datetime = EPOCH

    def applied(self, job: Job, frame: DataFrame) -> DataFrame:
        """Return what the sink is to have of the batch: with corrected windows, or without the rows
        that are too late."""
        if job.corrections is None or self.rows is None or self.closes is None:
            return frame
        if job.stateless:
            return frame.where(self.closes > F.lit(self.since))
        return frame.unionByName(
            job.corrections.windows(self.rows.where(F.col("closes") > F.lit(self.since)))
        )

    def release(self) -> None:
        """Let the memory go."""
        if self.rows is not None:
            self.rows.unpersist()


def keep_late(job: Job, spark: SparkSession, batch: Batch, part: Part) -> Late:
    """Find the rows of an input that the transform no longer took, and write keep those that change
    no window."""
    given, watermark = part.input, batch.late_watermark
    if given.late is None or given.closes is None or part.seen.earliest is None:
        return Late()
    if part.seen.earliest >= watermark.timestamp() * 1_000_000:
        return Late()
    limit = microseconds(job.corrections.limit, "limit", least=0) if job.corrections else 0
    since = watermark - timedelta(microseconds=limit)
    rows = given.reading.rows(spark, part.batch.start, part.batch.end).withColumns(
        {"closes": given.closes, "watermark": F.lit(watermark)}
    )
    late = rows.where(F.col("closes") <= F.col("watermark")).persist()
    try:
        too_late = late.where(F.col("closes") <= F.lit(since))
        count, kept = late.count(), too_late.count()
        if kept:
            given.late.write(too_late, batch, expected=kept)
    except BaseException:
        late.unpersist()
        raise
    return Late(count, count - kept, late, given.closes if count else None, since)


def dead_rows(spark: SparkSession, part: Part) -> DataFrame:
    """Return the rows of an input's offsets that could not be read."""
    return part.input.reading.dead(spark, part.batch.start, part.batch.end)


def reasons(spark: SparkSession, part: Part) -> list[str]:
    """Return the commonest reasons for which rows could not be read."""
    dead = dead_rows(spark, part).groupBy("stage", "reason")
    top = dead.agg(
        F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first")
    )
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset "
        f"{row['first']['offset']})"
        for row in top.orderBy(F.desc("n")).limit(5).collect()
    ]
