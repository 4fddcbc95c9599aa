"""Partitions dealt out to several streams that together read the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from ..errors import ArgumentError

Place = tuple[str, int]
"""A topic and a partition of it."""
Start = Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]] | datetime
"""Where a source begins."""
_FIRST = -2


def dealt_out(given: Sequence[Place], shares: int) -> list[Sequence[Place]]:
    """Deal partitions out to so many shares, one after the other."""
    return [given[index::shares] for index in range(shares)]


def dealt_on(
    given: Sequence[Place], before: Sequence[Mapping[str, Iterable[int]]]
) -> list[Sequence[Place]]:
    """Deal the partitions that were added to the shares that there are, to the smallest first."""
    dealt = [
        [(topic, part) for topic, parts in share.items() for part in sorted(parts)]
        for share in before
    ]
    known = {place for share in dealt for place in share}
    for place in given:
        if place not in known:
            min(dealt, key=len).append(place)
    return list(dealt)


def partitions_of(given: Sequence[Place]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    found: dict[str, list[int]] = {}
    for topic, part in given:
        found.setdefault(topic, []).append(part)
    return found


def start_of(start: Start, given: Sequence[Place]) -> Start:
    """Return where these partitions alone begin."""
    if not isinstance(start, Mapping):
        return start
    return {
        # A partition that was added since is read from its first record on.
        topic: {part: start[topic].get(part, _FIRST) for part in parts}
        for topic, parts in partitions_of(given).items()
    }


def require_starts(start: Start, given: Sequence[Place]) -> None:
    """Refuse offsets that leave a partition out.

    Raises ArgumentError.
    """
    if not isinstance(start, Mapping):
        return
    without = [f"{topic}-{part}" for topic, part in given if part not in start[topic]]
    if without:
        raise ArgumentError(
            f"start leaves out {', '.join(without)}.",
            "every partition: -2 is its earliest offset, -1 its latest.",
        )
