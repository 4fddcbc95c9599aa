"""Statistics of the partitions of an offset range, observed while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ..offsets import EventTimes, Offsets, iterate_partitions, partition_offset
from .event_time_column import EVENT_TIME

_BITMAP_BITS = 32_768
"""The size of a bitmap of Spark."""
PARTITIONS_PER_BITMAP = 32
INTERVALS_PER_PARTITION = _BITMAP_BITS // PARTITIONS_PER_BITMAP
"""The number of offset intervals of a partition, with one bit each."""


@dataclass(frozen=True)
class OffsetBitmap:
    """A bitmap of the offset intervals with matching rows, for several partitions of a topic.

    It serves PARTITIONS_PER_BITMAP partitions, because each aggregate costs time for every row. An
    interval is 2 ** `shift` offsets long and starts at a multiple of that; `shift` is the smallest
    with at most INTERVALS_PER_PARTITION intervals in a range. The bit of an interval is its number
    modulo INTERVALS_PER_PARTITION.

    group: the partition numbers divided by PARTITIONS_PER_BITMAP.
    ranges: the offset range of each partition, end exclusive.
    """

    topic: str
    group: int
    ranges: Mapping[int, tuple[int, int]]

    def bitmap_aggregate(self, is_match: Column, log_position: Sequence[Column]) -> Column:
        """Return the aggregate of the intervals with a matching row.

        is_match: whether a row matches. log_position: its topic, partition and offset.
        """
        topic, partition, offset = log_position
        slot = (partition - F.lit(self.group * PARTITIONS_PER_BITMAP)).cast("bigint")
        is_in_group = (topic == F.lit(self.topic)) & slot.between(0, PARTITIONS_PER_BITMAP - 1)
        interval = F.shiftright(offset, self.shift).bitwiseAND(F.lit(INTERVALS_PER_PARTITION - 1))
        bit = slot * F.lit(INTERVALS_PER_PARTITION) + interval
        return F.bitmap_construct_agg(F.when(is_match & is_in_group, bit))

    def first_offsets(self, bitmap: bytes) -> dict[int, int]:
        """Return an offset at or before the first matching row, for partitions that have one.

        It is the start of the first row's interval, or the start of the range.
        """
        offsets = {part: self._first_offset(bitmap, part) for part in self.ranges}
        return {part: offset for part, offset in offsets.items() if offset is not None}

    @cached_property
    def shift(self) -> int:
        """The binary logarithm of the length of an interval."""
        shift = 0
        while any(
            ((end - 1) >> shift) - (start >> shift) >= INTERVALS_PER_PARTITION
            for start, end in self.ranges.values()
        ):
            shift += 1
        return shift

    def _first_offset(self, bitmap: bytes, part: int) -> int | None:
        start, end = self.ranges[part]
        first_bit = part % PARTITIONS_PER_BITMAP * INTERVALS_PER_PARTITION
        for interval in range(start >> self.shift, ((end - 1) >> self.shift) + 1):
            byte, bit = divmod(first_bit + interval % INTERVALS_PER_PARTITION, 8)
            if bitmap[byte] >> bit & 1:
                return max(start, interval << self.shift)
        return None


def offset_bitmaps(start: Offsets, end: Offsets) -> Iterator[OffsetBitmap]:
    """Return the bitmaps of an offset range."""
    groups: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    for topic, part, stop in iterate_partitions(end):
        ranges = groups.setdefault((topic, part // PARTITIONS_PER_BITMAP), {})
        ranges[part] = (partition_offset(start, topic, part), stop)
    for (topic, group), ranges in groups.items():
        yield OffsetBitmap(topic, group, ranges)


@dataclass(frozen=True)
class RangeStats:
    """The first offset since an instant and the maximum event time of each partition.

    Observed aggregates compute them for every good row, also for rows that `where` drops.

    start, end: the offset range, end exclusive. since: the instant, in microseconds since 1970.
    with_max_times: whether to compute the maximum event times, with an aggregate per partition.
    """

    start: Offsets
    end: Offsets
    since: int
    with_max_times: bool = False
    _observation: Observation = field(default_factory=Observation, compare=False, repr=False)

    def with_metrics(
        self, rows: DataFrame, is_good: Column, log_position: Sequence[Column]
    ) -> DataFrame:
        """Return the rows with the observation.

        log_position: the columns of the topic, the partition and the offset.
        """
        topic, partition, _ = log_position
        time = F.when(is_good, F.unix_micros(EVENT_TIME))
        # Most rows of a backlog are older and cost this comparison only.
        is_recent = time >= F.lit(self.since)
        metrics = [
            bitmap.bitmap_aggregate(is_recent, log_position).alias(_bitmap_metric(bitmap))
            for bitmap in self._bitmaps
        ]
        if self.with_max_times:
            for name, part, _ in iterate_partitions(self.end):
                is_matching = (partition == F.lit(part)) & (topic == F.lit(name))
                max_time = F.max(F.when(is_matching, time))
                metrics.append(max_time.alias(_max_time_metric(name, part)))
        return rows.observe(self._observation, *metrics) if metrics else rows

    def collect_max_event_times(self) -> EventTimes:
        """Return the maximum event times (with `with_max_times`) after the range was read.

        A partition without a good row has none.
        """
        max_times: EventTimes = {}
        for topic, part, _ in iterate_partitions(self.end):
            time = self._observation.get[_max_time_metric(topic, part)]
            if time is not None:
                max_times.setdefault(topic, {})[part] = time
        return max_times

    def first_offsets_since(self) -> Offsets:
        """Return an offset at or before the first row since the instant, after the range was read.

        It is before that row by at most 1/500 of the longest range. For a partition without such a
        row it is the end of the range.
        """
        first_offsets = {topic: dict(parts) for topic, parts in self.end.items()}
        for bitmap in self._bitmaps:
            bits = self._observation.get[_bitmap_metric(bitmap)]
            first_offsets[bitmap.topic] |= bitmap.first_offsets(bits)
        return first_offsets

    @cached_property
    def _bitmaps(self) -> list[OffsetBitmap]:
        return list(offset_bitmaps(self.start, self.end))


def collect_max_event_times(rows: DataFrame, position_columns: Sequence[str]) -> EventTimes:
    """Return the maximum event time of each partition among rows.

    position_columns: the names of the columns topic, partition and offset.
    """
    times = rows.groupBy(*position_columns[:2]).agg(F.max(F.unix_micros(EVENT_TIME)))
    return _collect_by_partition(times)


def first_offsets_since(rows: DataFrame, position_columns: Sequence[str], since: int) -> Offsets:
    """Return the first offset since an instant of each partition among rows.

    position_columns: the names of the columns topic, partition and offset.
    since: the instant, in microseconds since 1970.
    """
    recent = rows.where(F.unix_micros(EVENT_TIME) >= F.lit(since))
    offsets = recent.groupBy(*position_columns[:2]).agg(F.min(position_columns[2]))
    return _collect_by_partition(offsets)


def _collect_by_partition(numbers: DataFrame) -> dict[str, dict[int, int]]:
    numbers_by_partition: dict[str, dict[int, int]] = {}
    for topic, part, number in numbers.collect():
        numbers_by_partition.setdefault(topic, {})[part] = number
    return numbers_by_partition


def _max_time_metric(topic: str, part: int) -> str:
    return f"max event time of {topic}-{part}"


def _bitmap_metric(bitmap: OffsetBitmap) -> str:
    return f"recent intervals of {bitmap.topic}, {bitmap.group}"
