"""Offsets that a topic had lost before they were read: which these are, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import count

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...commit import Batch, last_batch
from ...errors import SourceError
from ...jvm import delta_state
from ...offsets import Offsets, offset_of
from ...sinks import SideTable
from ...sources import KafkaSource
from ...sources.topics import client
from .side_outputs import Part

COLUMNS = "topic STRING, partition INT, start_offset BIGINT, end_offset BIGINT, batch BIGINT"
_SHOWN = 10


@dataclass(frozen=True, order=True)
class Gap:
    """A range of a partition's offsets that is gone, its end exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from offset {self.start} up to {self.end}"

    @property
    def length(self) -> int:
        """How many offsets there were; some of them may never have held a record."""
        return self.end - self.start


def found_gaps(start: Offsets, end: Offsets, earliest: Offsets) -> list[Gap]:
    """Return what of a range of offsets is before the first that each partition still has.

    Raises SourceError for a partition that ends before the range begins: its log was cut back.
    """
    found = []
    for topic, ends in end.items():
        for partition, stop in ends.items():
            begin = offset_of(start, topic, partition)
            if stop < begin:
                raise SourceError(
                    f"{topic}-{partition} has been read up to offset {begin}, and ends at {stop} "
                    "now: its log was cut back, and holds other records at those offsets.",
                    "a topic that only grows, and loses records at its beginning alone.",
                    "read what there is now with a new checkpoint and new tables.",
                )
            first = min(earliest.get(topic, {}).get(partition, begin), stop)
            if first > begin:
                found.append(Gap(topic, partition, begin, first))
    return sorted(found)


def require_there(spark: SparkSession, source: KafkaSource, batch: Batch) -> None:
    """Refuse a source's own part of a batch of which its topics have lost records.

    Raises SourceError, which names the ranges.
    """
    with client(spark, source) as asked:
        gaps = found_gaps(batch.start, batch.end, asked.earliest(batch.end))
    if gaps:
        raise lost(gaps, recorded=False)


def skipping(batch: Batch, gaps: Iterable[Gap]) -> Batch:
    """Return the batch without the offsets that are gone."""
    start = {topic: dict(partitions) for topic, partitions in batch.start.items()}
    for gap in gaps:
        start.setdefault(gap.topic, {})[gap.partition] = gap.end
    return replace(batch, start=start)


def size(gaps: Iterable[Gap]) -> int:
    """Return how many offsets are gone."""
    return sum(gap.length for gap in gaps)


def told(gaps: Sequence[Gap]) -> str:
    """Name the ranges, as far as a line can hold them, and how many offsets they are."""
    named = ", ".join(map(str, gaps[:_SHOWN]))
    more = f" and {len(gaps) - _SHOWN} more ranges" if len(gaps) > _SHOWN else ""
    return f"{named}{more} ({size(gaps):,} offsets)"


def lost(gaps: Sequence[Gap], *, recorded: bool) -> SourceError:
    """Return the error of a batch of which a topic has lost records.

    recorded: the input records what was lost, and the topic lost these while they were read.
    """
    given = f"records that were not yet read are gone from the topic: {told(gaps)}."
    if recorded:
        return SourceError(
            given,
            "a topic that loses nothing while a batch is read.",
            "start the job again: the batch runs anew, and records them as lost.",
        )
    return SourceError(
        given,
        "a topic that keeps its records until they are read.",
        "on_data_loss='record' goes on without them, and writes these ranges to the gap table; or "
        "read what is left with a new checkpoint and new tables.",
    )


def require_exact(spark: SparkSession, parts: Iterable[Part]) -> None:
    """Refuse a batch with gaps that has rows out of them: a consumer had fetched these ahead.

    What is written as lost must not be in the target as well. The rows that are left are counted
    once more, by a consumer of their own.
    """
    for part in parts:
        source = part.input.reading.source
        if source.on_data_loss == "record":
            there = source.between(spark, part.batch.start, part.batch.end).count()
            if part.seen.rows != there:
                raise SourceError(
                    f"batch {part.batch.number} has {part.seen.rows:,} rows of {part.name}, and "
                    f"{there:,} of them are still in the topic, which is losing records.",
                    "the same number.",
                    "start the job again: the batch runs anew, and reads what is there.",
                )


def keep_gaps(table: SideTable, spark: SparkSession, batch: Batch, gaps: Sequence[Gap]) -> None:
    """Write the ranges that the table does not have yet.

    A batch that runs again after a crash may have lost more than the first time: the rest then gets
    a step of its own, since a step is written once in a batch.
    """
    rest = _without(gaps, _noted(table, spark, gaps))
    if not rest:
        return
    rows = [(*astuple(gap), batch.number) for gap in rest]
    _free(table, spark, batch).write(
        spark.createDataFrame(rows, COLUMNS), batch, expected=len(rows)
    )


def _free(table: SideTable, spark: SparkSession, batch: Batch) -> SideTable:
    """Return the table under the first step that has not written this batch."""
    for number in count(1):
        own = table if number == 1 else replace(table, step=f"{table.step}_{number}")
        done = last_batch(spark, own.path, batch, own.step)
        if done is None or done < batch.number:
            return own
    raise AssertionError


def _noted(table: SideTable, spark: SparkSession, gaps: Sequence[Gap]) -> list[Gap]:
    """Return the ranges that the table has of the same topics."""
    if not gaps or delta_state(spark, table.path).version < 0:
        return []
    rows = spark.read.format("delta").load(table.path)
    mine = rows.where(F.col("topic").isin(sorted({gap.topic for gap in gaps})))
    return sorted(
        Gap(row["topic"], row["partition"], row["start_offset"], row["end_offset"])
        for row in mine.collect()
    )


def _without(gaps: Iterable[Gap], noted: Iterable[Gap]) -> list[Gap]:
    """Return what of the ranges is in none of those that were noted."""
    rest = list(gaps)
    for known in noted:
        rest = [part for gap in rest for part in _cut(gap, known)]
    return rest


def _cut(gap: Gap, known: Gap) -> list[Gap]:
    if (gap.topic, gap.partition) != (known.topic, known.partition):
        return [gap]
    below = replace(gap, end=min(gap.end, known.start))
    above = replace(gap, start=max(gap.start, known.end))
    return [part for part in (below, above) if part.length > 0]
