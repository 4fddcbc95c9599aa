"""Numbers of a topic's partitions, as checkpoints, sources and stamps have them."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

Offsets: TypeAlias = dict[str, dict[int, int]]
"""The Kafka offset of each partition, by topic and number."""
EventTimes: TypeAlias = dict[str, dict[int, int]]
"""An event time of each partition, by topic and number, in microseconds since 1970."""


def of_topics(numbers: Offsets | EventTimes, topics: Container[str]) -> dict[str, dict[int, int]]:
    """Return the numbers of these topics alone."""
    return {topic: parts for topic, parts in numbers.items() if topic in topics}


def offset_of(offsets: Offsets, topic: str, partition: int) -> int:
    """Return the offset of a partition; 0 where there is none."""
    return offsets.get(topic, {}).get(partition, 0)


def at_place(numbers: Offsets | EventTimes, topic: Column, partition: Column) -> Column:
    """Return the number of a row's partition; null where there is none."""
    found = F.lit(None).cast("bigint")
    for name, parts in numbers.items():
        if parts:
            keys = F.array(*[F.lit(part).cast("int") for part in parts])
            values = F.array(*[F.lit(at).cast("bigint") for at in parts.values()])
            own = F.try_element_at(F.map_from_arrays(keys, values), partition.cast("int"))
            found = F.when(topic == F.lit(name), own).otherwise(found)
    return found
