"""The course of a run: its batches one after another, in bounded room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..summary import Counted
from .gauge import Gauge

Number = TypeVar("Number", int, float)

MOST = 500
"""Up to twice as many stretches are kept; then neighbours are taken together in pairs."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One batch, or several that follow one another.

    ended: when the last of them ended, in seconds since 1970. seconds: of all of them, None where
    Spark reported none. longest: of the longest batch, in seconds.
    lag, state_rows, state_bytes: the greatest. watermark: the last, in seconds since 1970.
    reported: how many of the batches Spark has reported, of which alone times are known;
    rows_timed: the rows that those read.
    """

    first: int
    last: int
    batches: int
    reported: int
    ended: float
    rows_in: int
    rows_out: int
    rows_timed: int
    late: int
    dead: int
    seconds: float
    longest: float | None
    lag: int | None
    watermark: float | None
    state_rows: int | None
    state_bytes: int | None

    def __add__(self, other: Stretch) -> Stretch:
        """Return this and the next one as one."""
        return Stretch(
            first=self.first,
            last=other.last,
            batches=self.batches + other.batches,
            reported=self.reported + other.reported,
            ended=other.ended,
            rows_in=self.rows_in + other.rows_in,
            rows_out=self.rows_out + other.rows_out,
            rows_timed=self.rows_timed + other.rows_timed,
            late=self.late + other.late,
            dead=self.dead + other.dead,
            seconds=self.seconds + other.seconds,
            longest=_most(self.longest, other.longest),
            lag=_most(self.lag, other.lag),
            watermark=self.watermark if other.watermark is None else other.watermark,
            state_rows=_most(self.state_rows, other.state_rows),
            state_bytes=_most(self.state_bytes, other.state_bytes),
        )


class Course:
    """The batches of a run; of a long run several are told as one, so that sums stay right."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._each = 1
        self._stretches: list[Stretch] = []

    def add(self, batch: Counted, seen: Gauge | None, now: float) -> None:
        """Add a batch, with Spark's report of it where there is one."""
        made = stretch(batch, seen, now)
        if self._stretches and self._stretches[-1].batches < self._each:
            self._stretches[-1] += made
            return
        self._stretches.append(made)
        if len(self._stretches) >= 2 * self._most:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [one + other for one, other in pairs]
            self._each *= 2

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The course so far."""
        return tuple(self._stretches)


def stretch(batch: Counted, seen: Gauge | None, now: float) -> Stretch:
    """Return one batch as a stretch."""
    return Stretch(
        first=batch.number,
        last=batch.number,
        batches=1,
        reported=seen is not None,
        ended=now if seen is None or seen.ended is None else seen.ended,
        rows_in=batch.rows_in,
        rows_out=batch.rows_out,
        rows_timed=0 if seen is None else batch.rows_in,
        late=batch.late,
        dead=batch.dead,
        seconds=0.0 if seen is None else seen.seconds,
        longest=None if seen is None else seen.seconds,
        lag=None if seen is None else seen.lag,
        watermark=None if seen is None else seen.mark,
        state_rows=None if seen is None else seen.state_rows,
        state_bytes=None if seen is None else seen.state_bytes,
    )


def _most(one: Number | None, other: Number | None) -> Number | None:
    known = [each for each in (one, other) if each is not None]
    return max(known) if known else None
