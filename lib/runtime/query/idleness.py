"""Quiet inputs: up to where event time may go on without them, once they have been silent for long
enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..telemetry.progress import offsets

_BEATS_A_TIMEOUT = 4


@dataclass
class Quiet:
    """One stream's silence: since when it lasts by `clock`, and up to where heartbeats have taken
    its watermark."""

    since: float
    beat_at: float = float("-inf")
    mark: int | None = None


@dataclass
class Idle:
    """Tells which streams are quiet, and the watermark, in microseconds since 1970, that each of them may go on to.

    A stream is quiet when no row of it came for `timeout` seconds and none waits in its topic: so a
    backlog is never taken for silence, and a replay gives the same answer. While others have rows,
    a quiet one goes as far as the slowest of those. When all are quiet, event time goes on as the
    clock does, from the newest event or from `before`, the watermark of an earlier run. One without
    any row since the run began follows the others."""

    timeouts: Mapping[str, float]
    clock: Callable[[], float] = time.monotonic
    reached: dict[str, int] = field(default_factory=dict)
    before: int | None = None
    _quiet: dict[str, Quiet] = field(init=False)
    _batch: int = field(init=False, default=-1)
    _seen_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._seen_at = self.clock()
        self._quiet = {name: Quiet(self._seen_at) for name in self.timeouts}

    def saw(self, batch: int, rows: Mapping[str, int], waiting: Mapping[str, bool]) -> None:
        """Take note of a finished batch: each stream's rows, and whether more of them wait in its
        topic."""
        if batch == self._batch:
            return
        self._batch, self._seen_at = batch, self.clock()
        for name, quiet in self._quiet.items():
            if rows.get(name) or waiting.get(name):
                quiet.since, quiet.beat_at = self._seen_at, float("-inf")

    def due(self, *, busy: bool) -> dict[str, int]:
        """Return the streams whose watermark is to go on, and to where; `busy` while a batch runs,
        of unknown content."""
        now = self._seen_at if busy else self.clock()
        silent = {
            name for name, quiet in self._quiet.items() if now - quiet.since >= self.timeouts[name]
        }
        found = {}
        for name in sorted(silent):
            quiet, mark = self._quiet[name], self._mark(silent, now)
            wait = self.timeouts[name] / _BEATS_A_TIMEOUT
            if (
                mark is None
                or now - quiet.beat_at < wait
                or mark <= max(quiet.mark or 0, self.reached.get(name, 0))
            ):
                continue
            quiet.beat_at, quiet.mark = now, mark
            found[name] = mark
        return found

    def _mark(self, silent: set[str], now: float) -> int | None:
        awake = [
            self.reached[name]
            for name in self._quiet
            if name not in silent and name in self.reached
        ]
        if set(self._quiet) - silent:
            return min(awake, default=None)
        newest = max(self.reached.values(), default=self.before)
        passed = now - max(quiet.since for quiet in self._quiet.values())
        return None if newest is None else newest + round(passed * 1_000_000)


def sources(
    progress: Mapping[str, Any], topics: Mapping[str, Sequence[str]]
) -> tuple[dict[str, int], dict[str, bool]]:
    """Read from a query's progress each stream's rows, and whether more wait; `topics` names each one's partitions.

    A partition is named "topic-0". Spark lists its sources in the query's order, of which the names
    say nothing."""
    rows: dict[str, int] = {}
    waiting: dict[str, bool] = {}
    for source in progress.get("sources") or []:
        read, there = (offsets(source.get(end)) for end in ("endOffset", "latestOffset"))
        topics_read = {topic for topic, _ in read}
        parts_read = {f"{topic}-{part}" for topic, part in read}
        for name, own in topics.items():
            if topics_read & set(own) or parts_read & set(own):
                rows[name] = rows.get(name, 0) + int(source.get("numInputRows") or 0)
                waiting[name] = waiting.get(name, False) or any(
                    there.get(part, 0) > at for part, at in read.items()
                )
    return rows, waiting
