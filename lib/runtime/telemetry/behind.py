"""How far behind its topics a run is: in rows, in seconds, and before records are deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ...jvm import KafkaClient
from ...offsets import Offsets
from .gauge import Place

_LEAST_MS = 1_000
_GROWS = 4
_MOST_MS = 20 * 365 * 86_400_000
_HALVINGS = 5
"""How often an age between two bounds, of which one is four times the other, is halved."""


@dataclass(frozen=True, kw_only=True)
class Behind:
    """How far behind a run is, as a broker tells it.

    rows: that wait in each partition. seconds: how old the oldest of them is by its own timestamp,
    too much by a tenth or 32 ms at most; 0 where none waits.
    kept: records of each partition that were read, and are deleted before an unread one is; below 0
    where unread ones are gone.
    retention: how long each topic keeps records, in seconds, where that is limited; and how long
    it still keeps all that is unread is `head_room`.
    """

    rows: Mapping[Place, int]
    seconds: Mapping[Place, float]
    kept: Mapping[Place, int]
    retention: Mapping[str, float]
    head_room: Mapping[str, float]


def behind(asked: KafkaClient, read: Offsets, now: int) -> Behind:
    """Ask a broker how far behind it the offsets `read` are.

    now: in milliseconds since 1970. Raises OSError where the broker gives no answer.
    """
    first = _flat(asked.earliest(read))
    last = _flat(asked.latest(read))
    positions = _flat(read)
    rows = {place: max(0, last[place] - at) for place, at in positions.items()}

    def older(instants: Mapping[Place, int]) -> set[Place]:
        found = _flat(asked.since_each(_nested(instants)))
        return {
            place
            for place in instants
            if min(found.get(place, last[place]), last[place]) > positions[place]
        }

    ages = oldest({place for place, waits in rows.items() if waits}, older, now)
    seconds = {place: ages.get(place, 0) / 1000 for place in positions}
    retention = {
        topic: kept.milliseconds / 1000
        for topic, kept in asked.kept(list(read)).items()
        if kept.milliseconds is not None
    }
    head_room = {
        topic: max(0.0, keeps - _oldest_of(topic, seconds)) for topic, keeps in retention.items()
    }
    return Behind(
        rows=rows,
        seconds=seconds,
        kept={place: at - first[place] for place, at in positions.items()},
        retention=retention,
        head_room=head_room,
    )


def _oldest_of(topic: str, ages: Mapping[Place, float]) -> float:
    """Return the age of the oldest record that waits in a topic."""
    return max(age for (name, _), age in ages.items() if name == topic)


def oldest(
    waiting: Set[Place], older: Callable[[Mapping[Place, int]], set[Place]], now: int
) -> dict[Place, int]:
    """Return how old the oldest unread record of each partition is, in milliseconds.

    older: those of the partitions asked for that have an unread record from before an instant.
    All partitions are asked of at once: the bounds grow fourfold until none is older, and are then
    halved. An age is never told too small where a log's timestamps rise.
    """
    low = dict.fromkeys(waiting, 0)
    high: dict[Place, int] = {}
    reach = _LEAST_MS
    left = set(waiting)
    while left and reach < _MOST_MS:
        found = older(dict.fromkeys(left, now - reach))
        high |= dict.fromkeys(left - found, reach)
        low |= dict.fromkeys(found, reach)
        left = found
        reach *= _GROWS
    high |= dict.fromkeys(left, reach)
    for _ in range(_HALVINGS if waiting else 0):
        middle = {place: (low[place] + high[place]) // 2 for place in waiting}
        found = older({place: now - age for place, age in middle.items()})
        for place, age in middle.items():
            (low if place in found else high)[place] = age
    return high


def merged(found: list[Behind]) -> Behind:
    """Return what several brokers have told as one."""
    return Behind(
        rows={place: at for each in found for place, at in each.rows.items()},
        seconds={place: at for each in found for place, at in each.seconds.items()},
        kept={place: at for each in found for place, at in each.kept.items()},
        retention={topic: at for each in found for topic, at in each.retention.items()},
        head_room={topic: at for each in found for topic, at in each.head_room.items()},
    )


def _flat(given: Mapping[str, Mapping[int, int]]) -> dict[Place, int]:
    return {(topic, part): at for topic, parts in given.items() for part, at in parts.items()}


def _nested(given: Mapping[Place, int]) -> Offsets:
    nested: Offsets = {}
    for (topic, part), at in given.items():
        nested.setdefault(topic, {})[part] = at
    return nested
