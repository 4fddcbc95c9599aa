"""Offset gaps: offset ranges that a topic lost before they were read, and their table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import count

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..commit.batch import BatchPlan, CommitContext
from ..commit.delta_commit import last_batch
from ..errors import SourceError
from ..job.job import OFFSET_GAPS_SCHEMA
from ..jvm import delta_state
from ..offsets import Offsets, iterate_partitions, partition_offset
from ..sinks import SideOutputTable
from ..sources import KafkaSource
from ..sources.topics import open_kafka_client, require_not_truncated
from .side_outputs import InputBatch

_MAX_RANGES_SHOWN = 10


@dataclass(frozen=True, order=True)
class OffsetGap:
    """A lost offset range of a partition; the end is exclusive.

    >>> str(OffsetGap("clicks", 0, 10, 25)), OffsetGap("clicks", 0, 10, 25).offset_count
    ('clicks-0 from offset 10 up to 25', 15)
    """

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from offset {self.start} up to {self.end}"

    @property
    def offset_count(self) -> int:
        """The number of offsets; not every offset has a record."""
        return self.end - self.start


def find_offset_gaps(start: Offsets, end: Offsets, earliest: Offsets) -> list[OffsetGap]:
    """Return the parts of an offset range that are before each partition's first retained offset.

    Raises SourceError for a partition whose log ends before the range starts.

    >>> find_offset_gaps({"clicks": {0: 5}}, {"clicks": {0: 30}}, {"clicks": {0: 12}})
    [OffsetGap(topic='clicks', partition=0, start=5, end=12)]
    """
    require_not_truncated(start, end)
    gaps = []
    for topic, partition, range_end in iterate_partitions(end):
        range_start = partition_offset(start, topic, partition)
        first_retained = min(earliest.get(topic, {}).get(partition, range_start), range_end)
        if first_retained > range_start:
            gaps.append(OffsetGap(topic, partition, range_start, first_retained))
    return sorted(gaps)


def require_retained(spark: SparkSession, source: KafkaSource, plan: BatchPlan) -> None:
    """Refuse an offset range of a source if its topics have lost some of the records.

    Raises SourceError, which names the gaps.
    """
    with open_kafka_client(spark, source) as kafka:
        gaps = find_offset_gaps(plan.start, plan.end, kafka.earliest_offsets(plan.end))
    if gaps:
        raise data_loss_error(gaps, records_gaps=False)


def without_gaps(plan: BatchPlan, gaps: Sequence[OffsetGap]) -> BatchPlan:
    """Return the plan without the lost offsets."""
    if not gaps:
        return plan
    start = {topic: dict(partitions) for topic, partitions in plan.start.items()}
    for gap in gaps:
        start.setdefault(gap.topic, {})[gap.partition] = gap.end
    return replace(plan, start=start)


def count_lost_offsets(gaps: Iterable[OffsetGap]) -> int:
    """Return the number of lost offsets."""
    return sum(gap.offset_count for gap in gaps)


def format_gaps(gaps: Sequence[OffsetGap]) -> str:
    """Return the first gaps and the number of lost offsets, as one line."""
    ranges = ", ".join(map(str, gaps[:_MAX_RANGES_SHOWN]))
    more_count = len(gaps) - _MAX_RANGES_SHOWN
    more = f" and {more_count} more ranges" if more_count > 0 else ""
    return f"{ranges}{more} ({count_lost_offsets(gaps):,} offsets)"


def data_loss_error(gaps: Sequence[OffsetGap], *, records_gaps: bool) -> SourceError:
    """Return the error of a batch whose topic has lost records.

    records_gaps: whether the input records lost offsets (on_data_loss="record"), and the topic lost
        these during the batch.
    """
    problem = f"the topic has lost records that were not read: {format_gaps(gaps)}"
    if records_gaps:
        return SourceError(
            problem,
            "the records were lost while the batch was read.",
            "start the job again; it records the lost offsets in the offset gap table.",
        )
    return SourceError(
        problem,
        "the topic's retention deleted the records before the job read them.",
        "on_data_loss='record' of the source, which skips lost records and writes their ranges to "
        "the offset gap table; or read the remaining records with a new checkpoint and new tables.",
    )


def require_rows_outside_gaps(spark: SparkSession, input_batches: Iterable[InputBatch]) -> None:
    """Refuse a batch that has rows of its gaps, because a consumer had prefetched them.

    Offsets in the offset gap table must not have rows in the target. The remaining rows are counted
    again with another consumer.
    """
    for each in input_batches:
        source, plan, row_count = each.job_input.source, each.plan, each.observed.rows
        if source.on_data_loss == "record":
            retained_count = source.read_range(spark, plan.start, plan.end).count()
            if row_count != retained_count:
                raise SourceError(
                    f"batch {plan.number} has {row_count:,} rows of the input {each.name!r}, but "
                    f"the topic has {retained_count:,}",
                    "the topic loses records while the batch is read.",
                    "start the job again; the batch reads the remaining records.",
                )


def write_gaps(
    table: SideOutputTable, spark: SparkSession, batch: CommitContext, gaps: Sequence[OffsetGap]
) -> None:
    """Write the gaps that the table does not have yet.

    A batch that runs again after a crash may have larger gaps than before. The new gaps are written
    under another output name, because each output is written once per batch.
    """
    new_gaps = _subtract_gaps(gaps, _recorded_gaps(table, spark, gaps))
    if not new_gaps:
        return
    unwritten_table = table
    numbers = count(2)
    while is_written(spark, batch, table.path, unwritten_table.output):
        unwritten_table = replace(table, output=f"{table.output}_{next(numbers)}")
    rows = [(*astuple(gap), batch.plan.number) for gap in new_gaps]
    frame = spark.createDataFrame(rows, OFFSET_GAPS_SCHEMA)
    unwritten_table.write(frame, batch, expected=len(rows))


def is_written(spark: SparkSession, batch: CommitContext, path: str, output: str) -> bool:
    """Return whether a table has an output of a batch, or of a later one."""
    last_written = last_batch(spark, path, batch, output)
    return last_written is not None and last_written >= batch.plan.number


def _recorded_gaps(
    table: SideOutputTable, spark: SparkSession, gaps: Sequence[OffsetGap]
) -> list[OffsetGap]:
    if delta_state(spark, table.path).version < 0:
        return []
    rows = spark.read.format("delta").load(table.path)
    topic_rows = rows.where(F.col("topic").isin(sorted({gap.topic for gap in gaps})))
    return sorted(
        OffsetGap(row["topic"], row["partition"], row["start_offset"], row["end_offset"])
        for row in topic_rows.collect()
    )


def _subtract_gaps(
    gaps: Iterable[OffsetGap], recorded_gaps: Iterable[OffsetGap]
) -> list[OffsetGap]:
    remaining = list(gaps)
    for recorded_gap in recorded_gaps:
        remaining = [piece for gap in remaining for piece in _subtract_gap(gap, recorded_gap)]
    return remaining


def _subtract_gap(gap: OffsetGap, other: OffsetGap) -> list[OffsetGap]:
    if (gap.topic, gap.partition) != (other.topic, other.partition):
        return [gap]
    below = replace(gap, end=min(gap.end, other.start))
    above = replace(gap, start=max(gap.start, other.end))
    return [piece for piece in (below, above) if piece.offset_count > 0]
