"""Rows of a batch that are set aside: those that cannot be read, and those that are late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...commit import EPOCH, Batch
from ...durations import microseconds
from ...jvm import observed
from ...sinks import SideTable
from ...sources.event_time import EVENT_TIME
from ..job import Input, Job
from ..telemetry.record import MOST_REASONS
from .accounting import Observed, tally
from .streams import Stream


@dataclass(frozen=True)
class Part:
    """What a batch has of one input.

    batch: with the input's own offsets. seen: what was counted of them.
    reached: each stream's own watermark.
    """

    name: str
    input: Input
    batch: Batch
    seen: Observed
    reached: Mapping[str, int | None]


def counted(
    query: StreamingQuery, name: str, given: Input, streams: Sequence[Stream], batch: Batch
) -> Part:
    """Add up what was counted of an input's streams, and check it."""
    counts = [(stream, observed(query, stream.observation)) for stream in streams]
    reached: dict[str, int | None] = {}
    for stream, found in counts:
        latest = None if found is None else found["latest"]
        reached[stream.name] = None if latest is None else latest - stream.lateness
    seen = tally(batch, [found for _, found in counts if found is not None])
    return Part(name, given, batch, seen, reached)


def keep_dead(table: SideTable, spark: SparkSession, batch: Batch, parts: Iterable[Part]) -> None:
    """Write the rows of all inputs that could not be read."""
    found = [dead_rows(spark, part) for part in parts if part.seen.dead]
    if found:
        table.write(reduce(DataFrame.unionByName, found), batch, expected=batch.dead)


@dataclass(frozen=True)
class Late:
    """A batch's late rows of one input, kept in memory until `release`.

    count: how many there are. corrected: how many of them still correct their windows.
    since: rows that were late at this instant or before it are too late for that.
    rows: with `closes`, the instant from which each was late, and `watermark`.
    """

    count: int = 0
    corrected: int = 0
    since: datetime = EPOCH
    rows: DataFrame | None = None

    def correcting(self) -> DataFrame | None:
        """Return the rows that still correct their windows; None without any."""
        if self.rows is None or not self.corrected:
            return None
        return self.rows.where(F.col("closes") > F.lit(self.since))

    def write(self, table: SideTable, batch: Batch) -> None:
        """Write the rows that correct nothing."""
        kept = self.count - self.corrected
        if self.rows is not None and kept:
            too_late = self.rows.where(F.col("closes") <= F.lit(self.since))
            table.write(too_late, batch, expected=kept)

    def release(self) -> None:
        """Let the memory go."""
        if self.rows is not None:
            self.rows.unpersist()


def find_late(job: Job, spark: SparkSession, batch: Batch, part: Part) -> Late:
    """Find the rows of an input that the transform leaves out as late.

    They are read again, and judged by what the transform itself says of them.
    """
    if job.transform is None or part.seen.earliest is None:
        return Late()
    watermark = batch.late_watermark
    late_at = job.transform.late_at(F.col(EVENT_TIME))
    # A row at or past the watermark is in time, whatever the transform.
    if late_at is None or part.seen.earliest >= watermark.timestamp() * 1_000_000:
        return Late()
    rows = part.input.reading.rows(spark, part.batch.start, part.batch.end).withColumns(
        {"closes": late_at, "watermark": F.lit(watermark)}
    )
    late = rows.where(F.col("closes") <= F.col("watermark")).persist()
    since = watermark - _limit(job)
    try:
        found = late.agg(F.count(F.lit(1)), F.count_if(F.col("closes") > F.lit(since))).head() or (
            0,
            0,
        )
    except BaseException:
        late.unpersist()
        raise
    return Late(int(found[0]), int(found[1]), since, late)


def _limit(job: Job) -> timedelta:
    """Return for how long after it became late a row still corrects its windows."""
    if job.corrections is None:
        return timedelta(0)
    return timedelta(microseconds=microseconds(job.corrections, "corrections", least=0))


def dead_rows(spark: SparkSession, part: Part) -> DataFrame:
    """Return the rows of an input's offsets that could not be read."""
    return part.input.reading.dead(spark, part.batch.start, part.batch.end)


def by_reason(spark: SparkSession, parts: Iterable[Part]) -> dict[tuple[str, str], int]:
    """Return how many rows could not be read for each of the commonest stages and reasons."""
    found: Counter[tuple[str, str]] = Counter()
    for part in parts:
        for row in _commonest(spark, part, MOST_REASONS) if part.seen.dead else ():
            found[row["stage"], row["reason"]] += row["n"]
    return dict(found.most_common(MOST_REASONS))


def reasons(spark: SparkSession, part: Part) -> list[str]:
    """Return the commonest reasons for which rows could not be read."""
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset "
        f"{row['first']['offset']})"
        for row in _commonest(spark, part, 5)
    ]


def _commonest(spark: SparkSession, part: Part, most: int) -> list[Row]:
    dead = dead_rows(spark, part).groupBy("stage", "reason")
    top = dead.agg(
        F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first")
    )
    return top.orderBy(F.desc("n"), "stage", "reason").limit(most).collect()
