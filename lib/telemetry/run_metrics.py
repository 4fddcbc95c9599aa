"""The metrics of a run in bounded memory: totals, the history of batches, and consumer lag."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from ..commit.batch import BatchStats
from .batch_progress import BatchProgress, PartitionKey
from .lag import ConsumerLag
from .stats import Summary

MAX_BUCKETS = 500
"""At twice as many buckets, neighbours are merged in pairs."""
_SUMS = (
    *("batches", "reported_batches", "seconds"),
    *("rows_in", "rows_out", "rows_timed", "late_rows", "dead_letters"),
)
_MAXIMA = ("max_seconds", "lag", "state_rows", "state_bytes")
DURATION_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the histogram of batch durations, in seconds."""
MAX_REASONS = 20
OTHER_REASON = ("other", "other")
_MAX_REASON_LENGTH = 120


@dataclass(frozen=True, kw_only=True)
class HistoryBucket:
    """One batch, or several consecutive batches.

    Attributes:
        ended_at: when the last batch ended, in seconds since 1970.
        reported_batches: the batches with a progress report of Spark; only they have times.
        rows_timed: the input rows of the reported batches.
        seconds: the total duration of the reported batches.
        max_seconds: the duration of the longest batch; None if no batch was reported.
        lag, state_rows, state_bytes: the maximum over the batches.
        watermark: the last watermark, in seconds since 1970.
    """

    first_batch: int
    last_batch: int
    batches: int
    reported_batches: int
    ended_at: float
    rows_in: int
    rows_out: int
    rows_timed: int
    late_rows: int
    dead_letters: int
    seconds: float
    max_seconds: float | None
    lag: int | None
    watermark: float | None
    state_rows: int | None
    state_bytes: int | None

    def __add__(self, other: HistoryBucket) -> HistoryBucket:
        """Return this bucket merged with the one that follows it."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        maxima: dict[str, Any] = {}
        for name in _MAXIMA:
            values = (getattr(self, name), getattr(other, name))
            maxima[name] = max((value for value in values if value is not None), default=None)
        watermark = self.watermark if other.watermark is None else other.watermark
        return replace(other, first_batch=self.first_batch, watermark=watermark, **sums, **maxima)


class BatchHistory:
    """The batches of a run; in a long run, a bucket holds several batches and sums stay exact."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._batches_per_bucket = 1
        self._buckets: list[HistoryBucket] = []

    def add(self, batch: BatchStats, progress: BatchProgress | None, now: float) -> None:
        """Add a batch, with its progress report if Spark has sent one."""
        bucket = to_bucket(batch, progress, now)
        if self._buckets and self._buckets[-1].batches < self._batches_per_bucket:
            self._buckets[-1] += bucket
            return
        self._buckets.append(bucket)
        if len(self._buckets) >= 2 * self._max_buckets:
            pairs = zip(self._buckets[::2], self._buckets[1::2], strict=True)
            self._buckets = [one + other for one, other in pairs]
            self._batches_per_bucket *= 2

    @property
    def buckets(self) -> tuple[HistoryBucket, ...]:
        """The buckets in the order of their batches."""
        return tuple(self._buckets)


def to_bucket(batch: BatchStats, progress: BatchProgress | None, now: float) -> HistoryBucket:
    """Return a bucket of one batch."""
    return HistoryBucket(
        first_batch=batch.number,
        last_batch=batch.number,
        batches=1,
        reported_batches=progress is not None,
        ended_at=now if progress is None or progress.ended_at is None else progress.ended_at,
        rows_in=batch.rows_in,
        rows_out=batch.rows_out,
        rows_timed=0 if progress is None else batch.rows_in,
        late_rows=batch.late_rows,
        dead_letters=batch.dead_letters,
        seconds=0.0 if progress is None else progress.seconds,
        max_seconds=None if progress is None else progress.seconds,
        lag=None if progress is None else progress.lag,
        watermark=None if progress is None else progress.watermark_seconds,
        state_rows=None if progress is None else progress.state_rows,
        state_bytes=None if progress is None else progress.state_bytes,
    )


@dataclass(kw_only=True)
class MetricsSnapshot:
    """The metrics of a run at an instant.

    Attributes:
        duration_counts: batches by duration, for each of DURATION_BUCKETS and above the last.
        dropped_rows: rows, or groups of rows, that Spark's operators dropped behind the watermark.
        lag_by_partition: unread records.
    """

    summary: Summary
    started_at: float
    query: str | None = None
    last_progress: BatchProgress | None = None
    duration_counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS) + 1))
    total_seconds: float = 0.0
    dropped_rows: int = 0
    dead_letter_reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    lag_by_partition: Mapping[PartitionKey, int] = field(default_factory=dict)
    consumer_lag: ConsumerLag | None = None
    history: tuple[HistoryBucket, ...] = ()


class RunMetrics:
    """Collects the metrics of a run; thread-safe.

    A batch's own counts arrive from inside the batch, and Spark's progress report some time later.
    Both are matched by the batch number.

    detailed: whether metrics are read, so that reasons and broker offsets are collected too.
    """

    def __init__(
        self, summary: Summary, *, detailed: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self.summary = summary
        self.detailed = detailed
        self.query: str | None = None
        self._clock = clock
        self._lock = Lock()
        self._unreported_batches: list[BatchStats] = []
        self._current = MetricsSnapshot(summary=summary, started_at=clock())
        self._history = BatchHistory()

    def add_batch(self, batch: BatchStats) -> None:
        """Add the counts of a batch."""
        with self._lock:
            self.summary.add_batch(batch)
            self._unreported_batches.append(batch)
            reasons = self._current.dead_letter_reasons
            for (stage, reason), rows in batch.dead_letter_reasons.items():
                key = (stage, reason[:_MAX_REASON_LENGTH])
                is_counted = key in reasons or len(reasons) < MAX_REASONS
                reasons[key if is_counted else OTHER_REASON] += rows

    def add_progress(self, progress: BatchProgress) -> None:
        """Add Spark's progress report of a batch; ignore a repeated one."""
        with self._lock:
            if progress.batch == self.last_batch:
                return
            current = self._current
            current.last_progress = progress
            current.lag_by_partition = progress.lag_by_partition
            current.duration_counts[bisect_left(DURATION_BUCKETS, progress.seconds)] += 1
            current.total_seconds += progress.seconds
            current.dropped_rows += progress.dropped_rows
            while self._unreported_batches and self._unreported_batches[0].number < progress.batch:
                self._history.add(self._unreported_batches.pop(0), None, self._clock())
            if self._unreported_batches and self._unreported_batches[0].number == progress.batch:
                self._history.add(self._unreported_batches.pop(0), progress, self._clock())

    @property
    def last_batch(self) -> int:
        """The number of the last batch that Spark reported; -1 before the first."""
        last_progress = self._current.last_progress
        return -1 if last_progress is None else last_progress.batch

    def set_consumer_lag(self, lag: ConsumerLag | None) -> None:
        """Set the consumer lag; None if a broker did not answer."""
        with self._lock:
            self._current.consumer_lag = lag
            if lag is not None:
                self._current.lag_by_partition = lag.rows

    def add_unreported_batches(self) -> None:
        """Add the batches without a progress report to the history."""
        with self._lock:
            for batch in self._unreported_batches:
                self._history.add(batch, None, self._clock())
            self._unreported_batches.clear()

    def snapshot(self) -> MetricsSnapshot:
        """Return the current metrics."""
        with self._lock:
            reasons = self._current.dead_letter_reasons.copy()
            unexplained = self.summary.dead_letters - reasons.total()
            if unexplained > 0:
                reasons[OTHER_REASON] += unexplained
            return replace(
                self._current,
                summary=replace(
                    self.summary,
                    watermarks=dict(self.summary.watermarks),
                    rule_violations=dict(self.summary.rule_violations),
                ),
                query=self.query,
                duration_counts=list(self._current.duration_counts),
                dead_letter_reasons=reasons,
                history=self._history.buckets,
            )
