"""Idleness: the watermark of an input goes on once it has been silent for long enough.

`Idleness` decides which streams are idle and how far their watermarks may go; it knows a clock and
nothing of Spark. `Heartbeat` reads a running query for it and writes the heartbeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...commit import EPOCH
from ...durations import microseconds, since_1970
from ..job import Job
from ..summary import Summary
from ..telemetry.gauge import offsets
from .streams import Stream

_NEVER = float("inf")
_HEARTBEATS_A_TIMEOUT = 4


@dataclass
class _Silence:
    """One stream's silence: since when it lasts by the clock, and what was done about it.

    sent_at: when its last heartbeat was sent; sent: up to where that took the watermark.
    """

    since: float
    sent_at: float = float("-inf")
    sent: int | None = None


@dataclass
class Idleness:
    """Tells which streams are idle, and the watermark that each of them may go on to.

    Watermarks are in microseconds since 1970. A stream is idle when no row of it came for its
    time-out, in seconds, and none waits in its topic: so a backlog is never taken for silence, and
    a replay gives the same answer. While other streams have rows, an idle one goes as far as the
    slowest of those. When all are idle, event time goes on as the clock does, from the newest event
    or from `before`, the watermark of an earlier run. A stream without any row since the run began
    follows the others.
    """

    timeouts: Mapping[str, float]
    clock: Callable[[], float] = time.monotonic
    reached: dict[str, int] = field(default_factory=dict)
    before: int | None = None
    _silences: dict[str, _Silence] = field(init=False)
    _batch: int = field(init=False, default=-1)
    _seen_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._seen_at = self.clock()
        self._silences = {name: _Silence(self._seen_at) for name in self.timeouts}

    def saw(self, batch: int, rows: Mapping[str, int], waiting: Mapping[str, bool]) -> None:
        """Take note of a finished batch.

        rows: how many each stream had. waiting: whether more of them wait in its topic.
        """
        if batch == self._batch:
            return
        self._batch = batch
        self._seen_at = self.clock()
        for name, silence in self._silences.items():
            if rows.get(name) or waiting.get(name):
                silence.since = self._seen_at
                silence.sent_at = float("-inf")

    def due(self, *, busy: bool) -> dict[str, int]:
        """Return the streams whose watermark is to go on, and to where.

        busy: a batch runs, of which it is not known what it holds.
        """
        now = self._seen_at if busy else self.clock()
        idle = {
            name
            for name, silence in self._silences.items()
            if now - silence.since >= self.timeouts[name]
        }
        found = {}
        for name in sorted(idle):
            mark = self._mark(idle, now)
            if mark is not None and self._goes_on(name, mark, now):
                self._silences[name].sent_at = now
                self._silences[name].sent = mark
                found[name] = mark
        return found

    def _goes_on(self, name: str, mark: int, now: float) -> bool:
        """Return whether a heartbeat is due by the clock, and would move the watermark on."""
        silence = self._silences[name]
        wait = self.timeouts[name] / _HEARTBEATS_A_TIMEOUT
        at = max(silence.sent or 0, self.reached.get(name, 0))
        return now - silence.sent_at >= wait and mark > at

    def _mark(self, idle: set[str], now: float) -> int | None:
        """Return how far idle streams may go; None where that is not known."""
        if set(self._silences) - idle:
            awake = [
                self.reached[name]
                for name in self._silences
                if name not in idle and name in self.reached
            ]
            return min(awake, default=None)
        newest = max(self.reached.values(), default=self.before)
        passed = now - max(silence.since for silence in self._silences.values())
        return None if newest is None else newest + round(passed * 1_000_000)


class Heartbeat:
    """Looks at a running query now and then, and moves the watermark of its idle inputs on.

    Does nothing in a job without idle time-outs.
    """

    def __init__(self, job: Job, inputs: Mapping[str, Sequence[Stream]], summary: Summary) -> None:
        self._summary = summary
        self._streams: dict[str, Stream] = {}
        timeouts: dict[str, float] = {}
        for name, given in job.inputs.items():
            for stream in inputs[name]:
                self._streams[stream.name] = stream
                timeouts[stream.name] = (
                    _NEVER if given.idle is None else microseconds(given.idle) / 1_000_000
                )
        self._on = any(given.idle is not None for given in job.inputs.values())
        self._idleness = Idleness(timeouts)

    def begin(self, spark: SparkSession) -> None:
        """Make the folders, with an instant that moves nothing.

        A source must be there when its query starts.
        """
        for stream in self._streams.values():
            if stream.heartbeats is not None:
                stream.heartbeats.beat(spark, EPOCH)

    def look(self, query: StreamingQuery, progress: Mapping[str, Any], spark: SparkSession) -> None:
        """Take note of the last batch, and send the heartbeats that are due."""
        if not self._on:
            return
        idleness = self._idleness
        rows, waiting = sources(progress, {name: s.reads for name, s in self._streams.items()})
        idleness.saw(int(progress["batchId"]), rows, waiting)
        reached = self._summary.reached
        idleness.reached = {name: mark for name, mark in reached.items() if mark is not None}
        if idleness.before is None:
            idleness.before = _watermark(progress)
        for name, mark in idleness.due(busy=bool(query.status["isTriggerActive"])).items():
            stream = self._streams[name]
            if stream.heartbeats is not None:
                # The watermark is the lateness behind what a heartbeat says.
                at = EPOCH + timedelta(microseconds=mark + stream.lateness)
                stream.heartbeats.beat(spark, at)


def sources(
    progress: Mapping[str, Any], topics: Mapping[str, Sequence[str]]
) -> tuple[dict[str, int], dict[str, bool]]:
    """Read from a query's progress each stream's rows, and whether more wait.

    topics: each stream's topics, or partitions, which are named "topic-0". Spark lists its sources
    in the query's order, of which the names say nothing.
    """
    rows: dict[str, int] = {}
    waiting: dict[str, bool] = {}
    for source in progress.get("sources") or []:
        read = offsets(source.get("endOffset"))
        there = offsets(source.get("latestOffset"))
        names = {topic for topic, _ in read} | {f"{topic}-{part}" for topic, part in read}
        unread = any(there.get(part, 0) > at for part, at in read.items())
        for name, own in topics.items():
            if names & set(own):
                rows[name] = rows.get(name, 0) + int(source.get("numInputRows") or 0)
                waiting[name] = waiting.get(name, False) or unread
    return rows, waiting


def _watermark(progress: Mapping[str, Any]) -> int | None:
    """Return a query's watermark in microseconds since 1970; None before it has one."""
    text = (progress.get("eventTime") or {}).get("watermark")
    if text is None:
        return None
    passed = since_1970(datetime.fromisoformat(text))
    return passed or None
