"""When a contestant is warm: once two runs in a row took as long as each other.

It imports nothing, since Flink's own environment has little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

WITHIN = 0.05
"""How far a run's time may be from that of the run before it, as a share of that."""
MOST = 6
"""How many runs are made at the most, whether or not the last two agree."""


def steady(seconds: Sequence[float], within: float = WITHIN) -> bool:
    """Return whether the last two of the times agree."""
    if len(seconds) < 2:
        return False
    before, last = seconds[-2:]
    return abs(last - before) <= within * before


def until_steady(run: Callable[[int], float], most: int = MOST, within: float = WITHIN) -> None:
    """Run what takes a run's number and tells how long that took, until two in a row agree."""
    took: list[float] = []
    while len(took) < most and not steady(took, within):
        took.append(run(len(took)))
