"""What a run has done so far: its totals, its batches, and how far behind it is."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock

from ..summary import Counted, Summary
from .behind import Behind
from .course import Course, Stretch
from .gauge import Gauge, Place

BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""The seconds up to which batches are counted: from one without a row to half an hour of work."""
MOST_REASONS = 20
OTHER = ("other", "other")
_LONGEST = 120


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A record at an instant, which does not change.

    buckets: how many batches took up to each of BUCKETS, and how many took longer. lag: rows that
    wait, by partition.
    """

    summary: Summary
    query: str | None
    started: float
    last: Gauge | None
    buckets: tuple[int, ...]
    seconds: float
    dropped: int
    reasons: Mapping[tuple[str, str], int]
    lag: Mapping[Place, int]
    behind: Behind | None
    course: tuple[Stretch, ...]


class Record:
    """The numbers of a run, told by the batches and asked for by whoever looks.

    Usable by several threads. A batch's own counts come from inside it, and Spark's report of it
    some time after: both are taken together by the batch's number.
    detailed: whether somebody looks, so that reasons and the broker are worth asking for.
    """

    def __init__(
        self, summary: Summary, *, detailed: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self.summary = summary
        self.detailed = detailed
        self.query: str | None = None
        self._started = clock()
        self._clock = clock
        self._lock = Lock()
        self._counted: list[Counted] = []
        self._last: Gauge | None = None
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._dropped = 0
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._lag: Mapping[Place, int] = {}
        self._behind: Behind | None = None
        self._course = Course()

    def add(self, batch: Counted) -> None:
        """Count one more batch, as it has counted itself."""
        with self._lock:
            self.summary.add(batch)
            self._counted.append(batch)
            for (stage, reason), rows in batch.reasons.items():
                self._reasons[self._known((stage, reason[:_LONGEST]))] += rows

    def _known(self, reason: tuple[str, str]) -> tuple[str, str]:
        return reason if reason in self._reasons or len(self._reasons) < MOST_REASONS else OTHER

    def saw(self, seen: Gauge) -> None:
        """Take Spark's report of a batch; one that was seen already changes nothing."""
        with self._lock:
            if self._last is not None and seen.batch == self._last.batch:
                return
            self._last = seen
            self._lag = seen.lags
            self._buckets[bisect_left(BUCKETS, seen.seconds)] += 1
            self._seconds += seen.seconds
            self._dropped += seen.dropped
            while self._counted and self._counted[0].number < seen.batch:
                self._course.add(self._counted.pop(0), None, self._clock())
            if self._counted and self._counted[0].number == seen.batch:
                self._course.add(self._counted.pop(0), seen, self._clock())

    @property
    def number(self) -> int:
        """The number of the batch that Spark has reported last; -1 before the first."""
        return -1 if self._last is None else self._last.batch

    def is_behind(self, told: Behind | None) -> None:
        """Take what the brokers have told; None where one of them did not answer."""
        with self._lock:
            self._behind = told
            if told is not None:
                self._lag = told.rows

    def ends(self) -> None:
        """Take the batches into the course of which Spark has reported nothing."""
        with self._lock:
            for batch in self._counted:
                self._course.add(batch, None, self._clock())
            self._counted.clear()

    def now(self) -> Snapshot:
        """Return the numbers as they are now."""
        with self._lock:
            reasons = self._reasons.copy()
            untold = self.summary.dead - reasons.total()
            if untold > 0:
                reasons[OTHER] += untold
            return Snapshot(
                summary=replace(self.summary, reached=dict(self.summary.reached)),
                query=self.query,
                started=self._started,
                last=self._last,
                buckets=tuple(self._buckets),
                seconds=self._seconds,
                dropped=self._dropped,
                reasons=reasons,
                lag=dict(self._lag),
                behind=self._behind,
                course=self._course.stretches,
            )
