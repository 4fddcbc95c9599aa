"""Offsets and event times by topic and partition, as checkpoints and sources store them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

Offsets: TypeAlias = dict[str, dict[int, int]]
"""The Kafka offset of each partition, by topic and partition number."""
EventTimes: TypeAlias = dict[str, dict[int, int]]
"""An event time of each partition, by topic and partition number, in microseconds since 1970."""


def select_topics(
    numbers: Offsets | EventTimes, topics: Container[str]
) -> dict[str, dict[int, int]]:
    """Return the numbers of these topics.

    >>> select_topics({"clicks": {0: 5}, "views": {0: 7}}, ["clicks"])
    {'clicks': {0: 5}}
    """
    return {topic: partitions for topic, partitions in numbers.items() if topic in topics}


def partition_offset(offsets: Offsets, topic: str, partition: int) -> int:
    """Return the offset of a partition, or 0 if the partition is missing.

    >>> partition_offset({"clicks": {0: 5}}, "clicks", 1)
    0
    """
    return offsets.get(topic, {}).get(partition, 0)


def iterate_partitions(
    numbers: Mapping[str, Mapping[int, int]],
) -> Iterator[tuple[str, int, int]]:
    """Yield the topic, partition and number of each partition.

    >>> list(iterate_partitions({"clicks": {0: 5, 1: 7}}))
    [('clicks', 0, 5), ('clicks', 1, 7)]
    """
    for topic, partitions in numbers.items():
        for partition, number in partitions.items():
            yield topic, partition, number


def map_partitions(
    numbers: Offsets | EventTimes, function: Callable[[str, int, int], int]
) -> dict[str, dict[int, int]]:
    """Return a number for each partition, computed from its topic, partition and number.

    >>> map_partitions({"clicks": {0: 5}}, lambda topic, part, offset: offset + 1)
    {'clicks': {0: 6}}
    """
    return {
        topic: {part: function(topic, part, number) for part, number in partitions.items()}
        for topic, partitions in numbers.items()
    }


def merge_partitions(
    mappings: Iterable[Offsets | EventTimes], choose: Callable[[int, int], int]
) -> dict[str, dict[int, int]]:
    """Return the partitions of all mappings; `choose`, such as min, resolves duplicates.

    >>> merge_partitions([{"clicks": {0: 5}}, {"clicks": {0: 7, 1: 2}}], max)
    {'clicks': {0: 7, 1: 2}}
    """
    merged: dict[str, dict[int, int]] = {}
    for numbers in mappings:
        for topic, partitions in numbers.items():
            topic_numbers = merged.setdefault(topic, {})
            for part, number in partitions.items():
                topic_numbers[part] = choose(topic_numbers.get(part, number), number)
    return merged


def count_offsets(start: Offsets, end: Offsets) -> int:
    """Return the number of offsets of a range, whose end is exclusive.

    >>> count_offsets({"clicks": {0: 5}}, {"clicks": {0: 7, 1: 2}})
    4
    """
    return sum(
        until - partition_offset(start, topic, part)
        for topic, part, until in iterate_partitions(end)
    )


def partition_value(numbers: Offsets | EventTimes, topic: Column, partition: Column) -> Column:
    """Return a column with the number of each row's partition, or null if it is missing.

    >>> value = partition_value({"clicks": {0: 5}}, F.lit("clicks"), F.lit(0))
    >>> clicks.select(value.alias("offset")).first()
    Row(offset=5)
    """
    value = F.lit(None).cast("bigint")
    for name, partitions in numbers.items():
        if partitions:
            keys = F.array(
                *[F.lit(partition_number).cast("int") for partition_number in partitions]
            )
            values = F.array(*[F.lit(number).cast("bigint") for number in partitions.values()])
            topic_value = F.try_element_at(F.map_from_arrays(keys, values), partition.cast("int"))
            value = F.when(topic == F.lit(name), topic_value).otherwise(value)
    return value
