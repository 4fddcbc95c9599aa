"""Consumer lag: unread records, their age, and the headroom before retention deletes them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields

from ..jvm import KafkaClient
from ..offsets import Offsets, iterate_partitions
from .batch_progress import PartitionKey

_MIN_AGE_MS = 1_000
_GROWTH_FACTOR = 4
_MAX_AGE_MS = 20 * 365 * 86_400_000
_HALVINGS = 5
"""How often the interval between two bounds, one four times the other, is halved."""


@dataclass(frozen=True, kw_only=True)
class ConsumerLag:
    """How far a run is behind its topics, as the broker reports it.

    Attributes:
        rows: the unread records of each partition.
        seconds: the age of the oldest unread record by its timestamp, 0 if all are read. It
            exceeds the true age by at most a tenth or 32 ms.
        headroom_rows: the records of each partition that were read and that retention deletes
            before an unread one; negative if unread records were deleted.
        retention_seconds: the retention time of each topic that has one.
        headroom_seconds: the time until retention deletes the oldest unread record of a topic.
    """

    rows: Mapping[PartitionKey, int]
    seconds: Mapping[PartitionKey, float]
    headroom_rows: Mapping[PartitionKey, int]
    retention_seconds: Mapping[str, float]
    headroom_seconds: Mapping[str, float]


def measure_lag(
    client: KafkaClient, read_offsets: Offsets, now_ms: int, *, halvings: int = _HALVINGS
) -> ConsumerLag:
    """Return how far a consumer at `read_offsets` is behind the broker.

    now_ms: the time in milliseconds since 1970. halvings: determines the precision of the ages.
    Raises OSError if the broker does not answer.
    """
    earliest = _flatten(client.earliest_offsets(read_offsets))
    latest = _flatten(client.latest_offsets(read_offsets))
    positions = _flatten(read_offsets)
    rows = {each: max(0, latest[each] - offset) for each, offset in positions.items()}

    def find_older(instants: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        offsets = _flatten(client.offsets_since_each(_nest(instants)))
        return {
            each
            for each in instants
            if min(offsets.get(each, latest[each]), latest[each]) > positions[each]
        }

    unread = {partition for partition, unread_rows in rows.items() if unread_rows}
    ages = oldest_ages(unread, find_older, now_ms, halvings)
    seconds = {partition: ages.get(partition, 0) / 1000 for partition in positions}
    retention_seconds = {
        topic: retained.milliseconds / 1000
        for topic, retained in client.retention(list(read_offsets)).items()
        if retained.milliseconds is not None
    }
    return ConsumerLag(
        rows=rows,
        seconds=seconds,
        headroom_rows={each: offset - earliest[each] for each, offset in positions.items()},
        retention_seconds=retention_seconds,
        headroom_seconds={
            topic: max(0.0, retained - max(seconds[topic, part] for part in read_offsets[topic]))
            for topic, retained in retention_seconds.items()
        },
    )


def oldest_ages(
    waiting_partitions: Set[PartitionKey],
    find_older: Callable[[Mapping[PartitionKey, int]], set[PartitionKey]],
    now_ms: int,
    halvings: int = _HALVINGS,
) -> dict[PartitionKey, int]:
    """Return the age of the oldest unread record of each partition, in milliseconds.

    find_older: returns the partitions with an unread record older than an instant, out of those
    passed. Each step asks for all partitions at once: the upper bounds grow fourfold until no
    record is older, then the intervals are halved. An age is never too small if the timestamps of
    a partition do not decrease.
    """
    low = dict.fromkeys(waiting_partitions, 0)
    high: dict[PartitionKey, int] = {}
    age_bound = _MIN_AGE_MS
    unresolved = set(waiting_partitions)
    while unresolved and age_bound < _MAX_AGE_MS:
        older_partitions = find_older(dict.fromkeys(unresolved, now_ms - age_bound))
        high |= dict.fromkeys(unresolved - older_partitions, age_bound)
        low |= dict.fromkeys(older_partitions, age_bound)
        unresolved = older_partitions
        age_bound *= _GROWTH_FACTOR
    high |= dict.fromkeys(unresolved, age_bound)
    for _ in range(halvings if waiting_partitions else 0):
        middle = {each: (low[each] + high[each]) // 2 for each in waiting_partitions}
        older_partitions = find_older({each: now_ms - age for each, age in middle.items()})
        for partition, age in middle.items():
            (low if partition in older_partitions else high)[partition] = age
    return high


def merge_lags(lags: list[ConsumerLag]) -> ConsumerLag:
    """Return the lags of several brokers as one."""
    return ConsumerLag(
        **{
            each.name: ChainMap(*(getattr(lag, each.name) for lag in lags))
            for each in fields(ConsumerLag)
        }
    )


def _flatten(nested: Mapping[str, Mapping[int, int]]) -> dict[PartitionKey, int]:
    return {(topic, part): offset for topic, part, offset in iterate_partitions(nested)}


def _nest(flat: Mapping[PartitionKey, int]) -> Offsets:
    nested: Offsets = {}
    for (topic, part), offset in flat.items():
        nested.setdefault(topic, {})[part] = offset
    return nested
