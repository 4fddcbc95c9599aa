"""From where on partitions have rows of a kind: never after the first, and not long before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.offsets import Offsets
from tidegate.sources._stretches import PARTITIONS, STRETCHES, Stretches, stretches
from tidegate.sources.reached import Reached

SINCE = 100


def bitmap(of: Stretches, *young: tuple[int, int]) -> bytes:
    """Return the bitmap that Spark would make of rows at these partitions and offsets."""
    bits = bytearray(PARTITIONS * STRETCHES // 8)
    for part, offset in young:
        slot = part - of.group * PARTITIONS
        at = slot * STRETCHES + (offset >> of.shift) % STRETCHES
        bits[at // 8] |= 1 << at % 8
    return bytes(bits)


@given(
    start=st.integers(0, 2**48),
    length=st.integers(1, 2**40),
    drawn=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
)
def test_the_offset_is_in_the_stretch_of_the_first_row(
    start: int, length: int, drawn: list[float]
) -> None:
    of = Stretches("clicks", 1, {33: (start, start + length), 34: (start, start)})
    offsets = [start + int(share * length) for share in drawn]
    found = of.first(bitmap(of, *[(33, offset) for offset in offsets]))
    assert set(found) == {33}
    first = min(offsets)
    assert start <= found[33] <= first
    assert first - found[33] <= length / (STRETCHES / 2)
    if length < STRETCHES:
        assert found[33] == first


def test_partitions_are_cut_by_topic_and_group() -> None:
    end: Offsets = {"clicks": {0: 5, 31: 6, 32: 7}, "views": {0: 8}}
    found = [(each.topic, each.group, each.ranges) for each in stretches({"clicks": {0: 2}}, end)]
    assert found == [
        ("clicks", 0, {0: (2, 5), 31: (0, 6)}),
        ("clicks", 1, {32: (0, 7)}),
        ("views", 0, {0: (0, 8)}),
    ]


@pytest.mark.parametrize("length", [10, 100_000], ids=["short", "long"])
def test_spark_marks_the_rows_at_the_instant_or_after_it(spark: SparkSession, length: int) -> None:
    young = {("a", 0): length // 2, ("a", 31): 7, ("a", 40): length - 1, ("b", 40): 3}
    rows = [
        (topic, part, offset, seconds)
        for (topic, part), first in young.items()
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
    reached = Reached({}, end, SINCE * 1_000_000)
    place = [F.col(name) for name in ("topic", "partition", "offset")]
    reached.observing(timed, F.col("s").isNotNull(), place).collect()

    found = reached.first()
    assert found["a"][1] == found["b"][0] == length, "no row: the end"
    for (topic, part), first in young.items():
        assert 0 <= first - found[topic][part] <= length // (STRETCHES // 2)
