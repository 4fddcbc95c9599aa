"""The first offsets since an instant: never after the first row, and not long before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.offsets import Offsets
from tidegate.sources.range_stats import (
    INTERVALS_PER_PARTITION,
    PARTITIONS_PER_BITMAP,
    OffsetBitmap,
    RangeStats,
    offset_bitmaps,
)

SINCE = 100


def bitmap(offset_bitmap: OffsetBitmap, *positions: tuple[int, int]) -> bytes:
    """Return the bitmap that Spark computes for rows at these partitions and offsets."""
    bits = bytearray(PARTITIONS_PER_BITMAP * INTERVALS_PER_PARTITION // 8)
    for part, offset in positions:
        slot = part - offset_bitmap.group * PARTITIONS_PER_BITMAP
        index = (
            slot * INTERVALS_PER_PARTITION
            + (offset >> offset_bitmap.shift) % INTERVALS_PER_PARTITION
        )
        bits[index // 8] |= 1 << index % 8
    return bytes(bits)


@given(
    start=st.integers(0, 2**48),
    length=st.integers(1, 2**40),
    shares=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
)
def test_the_offset_is_in_the_interval_of_the_first_row(
    start: int, length: int, shares: list[float]
) -> None:
    offset_bitmap = OffsetBitmap("clicks", 1, {33: (start, start + length), 34: (start, start)})
    offsets = [start + int(share * length) for share in shares]
    found = offset_bitmap.first_offsets(bitmap(offset_bitmap, *[(33, each) for each in offsets]))
    assert set(found) == {33}
    offset = found[33]
    first = min(offsets)
    assert start <= offset <= first
    assert first - offset <= length / (INTERVALS_PER_PARTITION / 2)
    if length < INTERVALS_PER_PARTITION:
        assert offset == first


def test_bitmaps_have_partitions_by_topic_and_group() -> None:
    end: Offsets = {"clicks": {0: 5, 31: 6, 32: 7}, "views": {0: 8}}
    found = [
        (each.topic, each.group, each.ranges) for each in offset_bitmaps({"clicks": {0: 2}}, end)
    ]
    assert found == [
        ("clicks", 0, {0: (2, 5), 31: (0, 6)}),
        ("clicks", 1, {32: (0, 7)}),
        ("views", 0, {0: (0, 8)}),
    ]


@pytest.mark.parametrize("length", [10, 100_000], ids=["short", "long"])
def test_spark_observes_first_offsets_since_the_instant(spark: SparkSession, length: int) -> None:
    first_recent = {("a", 0): length // 2, ("a", 31): 7, ("a", 40): length - 1, ("b", 40): 3}
    rows = [
        (topic, part, offset, seconds)
        for (topic, part), first in first_recent.items()
        for offset, seconds in [
            (first - 1, SINCE - 1),
            (first, SINCE),
            (first + 1, SINCE + 5),
            (0, None),
        ]
    ]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, s int")
    timed = frame.withColumn("event_time", F.timestamp_seconds("s"))
    end: Offsets = {
        "a": dict.fromkeys((0, 1, 31, 40), length),
        "b": dict.fromkeys((0, 40), length),
    }
    range_stats = RangeStats({}, end, SINCE * 1_000_000)
    log_position = [F.col(name) for name in ("topic", "partition", "offset")]
    range_stats.with_metrics(timed, F.col("s").isNotNull(), log_position).collect()

    first_offsets = range_stats.first_offsets_since()
    assert first_offsets["a"][1] == first_offsets["b"][0] == length, "without a row the end"
    for (topic, part), first in first_recent.items():
        assert 0 <= first - first_offsets[topic][part] <= length // (INTERVALS_PER_PARTITION // 2)
