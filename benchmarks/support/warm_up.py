"""The warm-up of a contestant: run until two consecutive runs take the same time.

The module has no dependencies, because it also runs in the virtual environment of Flink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

TOLERANCE = 0.05
"""The accepted difference between two consecutive times, as a share of the earlier."""
MAX_RUNS = 6
"""The maximum number of runs."""


def is_steady(seconds: Sequence[float], tolerance: float = TOLERANCE) -> bool:
    """Return whether the last two times agree."""
    if len(seconds) < 2:
        return False
    before, last = seconds[-2:]
    return abs(last - before) <= tolerance * before


def run_until_steady(
    run: Callable[[int], float], most: int = MAX_RUNS, tolerance: float = TOLERANCE
) -> None:
    """Call `run` with the number of the run until two consecutive times agree."""
    took: list[float] = []
    while len(took) < most and not is_steady(took, tolerance):
        took.append(run(len(took)))
