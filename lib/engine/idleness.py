"""Idleness: the watermark of an input advances once the input is idle for its timeout.

`Idleness` decides which streams are idle and how far their watermarks advance, by a clock and
without Spark. `HeartbeatSender` reads the progress of a query and writes the heartbeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..commit.batch import UNIX_EPOCH
from ..durations import epoch_micros, microseconds
from ..job.job import Job
from ..telemetry.batch_progress import parse_source_offsets
from ..telemetry.stats import Summary
from .streams import InputStream

_NO_TIMEOUT = float("inf")
_HEARTBEATS_PER_TIMEOUT = 4


@dataclass
class _Silence:
    """The silence of a stream: its start by the clock, and the last heartbeat sent.

    sent_at: the time of the last heartbeat; sent_watermark: its watermark.
    """

    silent_since: float
    sent_at: float = float("-inf")
    sent_watermark: int = 0


@dataclass
class Idleness:
    """Decides which streams are idle, and the watermark of each idle stream.

    Watermarks are in microseconds since 1970, timeouts in seconds. A stream is idle if it had no
    rows for its timeout and its topic has no unread records. A backlog is therefore never treated
    as idleness, and a replay has the same results. While other streams are active, an idle stream
    follows the slowest of them. If all streams are idle, event time advances with the clock, from
    the newest event or from `previous_watermark`, the watermark of an earlier run. A stream without
    rows in this run follows the others.

    >>> now = [0.0]
    >>> idleness = Idleness({"clicks": 10.0}, clock=lambda: now[0])
    >>> idleness.watermarks = {"clicks": 5_000_000}
    >>> now[0] = 12.0
    >>> idleness.due_heartbeats(is_batch_running=False)
    {'clicks': 17000000}
    """

    timeouts: Mapping[str, float]
    clock: Callable[[], float] = time.monotonic
    watermarks: dict[str, int] = field(default_factory=dict)
    previous_watermark: int | None = None
    _silences: dict[str, _Silence] = field(init=False)
    _last_batch: int = field(init=False, default=-1)
    _last_batch_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_batch_at = self.clock()
        self._silences = {name: _Silence(self._last_batch_at) for name in self.timeouts}

    def record_batch(
        self, batch: int, rows: Mapping[str, int], has_backlog: Mapping[str, bool]
    ) -> None:
        """Record a finished batch.

        rows: the number of rows of each stream.
        has_backlog: whether the topic of each stream has unread records.
        """
        if batch == self._last_batch:
            return
        self._last_batch = batch
        self._last_batch_at = self.clock()
        for name, silence in self._silences.items():
            if rows.get(name) or has_backlog.get(name):
                silence.silent_since = self._last_batch_at
                silence.sent_at = float("-inf")

    def due_heartbeats(self, *, is_batch_running: bool) -> dict[str, int]:
        """Return the new watermark of each stream for which a heartbeat is due.

        is_batch_running: whether a batch is running, whose rows are not known yet.
        """
        now = self._last_batch_at if is_batch_running else self.clock()
        idle = {
            name
            for name, silence in self._silences.items()
            if now - silence.silent_since >= self.timeouts[name]
        }
        heartbeats = {}
        for name in sorted(idle):
            watermark = self._idle_watermark(idle, now)
            silence = self._silences[name]
            min_interval = self.timeouts[name] / _HEARTBEATS_PER_TIMEOUT
            current_watermark = max(silence.sent_watermark, self.watermarks.get(name, 0))
            if (
                watermark is not None
                and watermark > current_watermark
                and now - silence.sent_at >= min_interval
            ):
                silence.sent_at = now
                silence.sent_watermark = watermark
                heartbeats[name] = watermark
        return heartbeats

    def _idle_watermark(self, idle: set[str], now: float) -> int | None:
        """Return the watermark for idle streams; None if it is unknown."""
        if set(self._silences) - idle:
            active_watermarks = [
                self.watermarks[name]
                for name in self._silences
                if name not in idle and name in self.watermarks
            ]
            return min(active_watermarks, default=None)
        max_watermark = max(self.watermarks.values(), default=self.previous_watermark)
        silent_seconds = now - max(silence.silent_since for silence in self._silences.values())
        return None if max_watermark is None else max_watermark + round(silent_seconds * 1_000_000)


class HeartbeatSender:
    """Advances the watermark of idle inputs of a running query.

    Does nothing in a job without idle timeouts.
    """

    def __init__(
        self, job: Job, inputs: Mapping[str, Sequence[InputStream]], summary: Summary
    ) -> None:
        self._summary = summary
        self._streams: dict[str, InputStream] = {}
        timeouts: dict[str, float] = {}
        for name, job_input in job.inputs.items():
            timeout = _NO_TIMEOUT
            if job_input.idle_timeout is not None:
                timeout = microseconds(job_input.idle_timeout) / 1_000_000
            for stream in inputs[name]:
                self._streams[stream.name] = stream
                timeouts[stream.name] = timeout
        self._is_enabled = any(timeout != _NO_TIMEOUT for timeout in timeouts.values())
        self._idleness = Idleness(timeouts)

    def create_folders(self, spark: SparkSession) -> None:
        """Create the heartbeat folders, with a heartbeat that does not advance the watermark.

        The folders must exist when the query starts.
        """
        for stream in self._streams.values():
            if stream.heartbeats is not None:
                stream.heartbeats.write(spark, UNIX_EPOCH)

    def tick(self, query: StreamingQuery, progress: Mapping[str, Any], spark: SparkSession) -> None:
        """Record the last batch, and send the heartbeats that are due."""
        if not self._is_enabled:
            return
        idleness = self._idleness
        rows, has_backlog = stream_activity(
            progress, {name: s.source_names for name, s in self._streams.items()}
        )
        idleness.record_batch(int(progress["batchId"]), rows, has_backlog)
        watermarks = self._summary.watermarks
        idleness.watermarks = {
            name: watermark for name, watermark in watermarks.items() if watermark is not None
        }
        query_watermark = (progress.get("eventTime") or {}).get("watermark")
        if idleness.previous_watermark is None and query_watermark is not None:
            # Spark reports 1970 before the first watermark.
            micros = epoch_micros(datetime.fromisoformat(query_watermark))
            idleness.previous_watermark = micros or None
        is_batch_running = bool(query.status["isTriggerActive"])
        heartbeats = idleness.due_heartbeats(is_batch_running=is_batch_running)
        for name, watermark in heartbeats.items():
            stream = self._streams[name]
            if stream.heartbeats is not None:
                # The watermark is behind the heartbeat's event time by the watermark delay.
                event_time = timedelta(microseconds=watermark + stream.watermark_delay)
                stream.heartbeats.write(spark, UNIX_EPOCH + event_time)


def stream_activity(
    progress: Mapping[str, Any], topics: Mapping[str, Sequence[str]]
) -> tuple[dict[str, int], dict[str, bool]]:
    """Return each stream's number of rows in a progress report, and whether it has a backlog.

    topics: the topics of each stream, or its partitions as "topic-0". Spark's list of sources does
        not have the names of the streams, so sources are matched by their topics.
    """
    rows: dict[str, int] = {}
    has_backlog: dict[str, bool] = {}
    for source in progress.get("sources") or []:
        read_offsets = parse_source_offsets(source.get("endOffset"))
        latest_offsets = parse_source_offsets(source.get("latestOffset"))
        source_names = {topic for topic, _ in read_offsets}
        source_names |= {f"{topic}-{part}" for topic, part in read_offsets}
        has_unread = any(
            latest_offsets.get(part, 0) > offset for part, offset in read_offsets.items()
        )
        for name, stream_topics in topics.items():
            if source_names & set(stream_topics):
                rows[name] = rows.get(name, 0) + int(source.get("numInputRows") or 0)
                has_backlog[name] = has_backlog.get(name, False) or has_unread
    return rows, has_backlog
