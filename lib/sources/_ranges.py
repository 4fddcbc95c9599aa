"""Ranges of offsets, and how Spark's Kafka reader is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from ..errors import ArgumentError
from ..offsets import Offsets, offset_of

Ranges: TypeAlias = dict[str, dict[int, tuple[int, int]]]


def ranges_of(start: Offsets, end: Offsets) -> Ranges:
    """Return the first and the last offset of each partition that has anything to be read."""
    found: Ranges = {}
    for topic, ends in end.items():
        for partition, stop in ends.items():
            first = offset_of(start, topic, partition)
            if stop < first:
                raise ArgumentError(f"{topic}-{partition} is to be read from {first} to {stop}.")
            if stop > first:
                found.setdefault(topic, {})[partition] = (first, stop)
    return found


def by_topic(
    ranges: Ranges, value: Callable[[dict[int, tuple[int, int]]], list[int] | dict[int, int]]
) -> str:
    """Return what Spark is told of each topic, as JSON."""
    return json.dumps({topic: value(partitions) for topic, partitions in ranges.items()})


def firsts(partitions: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Return where the partitions' ranges begin."""
    return {partition: first for partition, (first, _) in partitions.items()}


def lasts(partitions: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Return where the partitions' ranges end, exclusive."""
    return {partition: stop for partition, (_, stop) in partitions.items()}
