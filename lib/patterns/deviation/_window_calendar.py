"""The grid of windows, and the distances between them in elapsed or local time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...calendars import DAY, Calendar, calendar, fixed_micros, floor_divide, is_calendar_period
from ...durations import epoch_micros, microseconds
from ...errors import ArgumentError
from .deviation_rule import PastWindows

_HOUR = 3_600_000_000
_DST_SHIFTS = (0, 30 * 60, 60 * 60, 2 * 60 * 60)
"""The seconds by which clocks are set back, after which local times are ambiguous."""


@dataclass(frozen=True)
class WindowGrid:
    """Tumbling windows: `width` microseconds long, or the periods of a calendar.

    The start identifies a window. `zone` is the time zone of dates and distances.
    """

    width: int | Calendar
    start: int
    zone: str | None

    def has_same_windows(self, other: WindowGrid) -> bool:
        """Return whether both grids have the same windows, apart from the zone of distances."""
        return (self.width, self.start) == (other.width, other.start)

    def has_window_ending_between(self, start: datetime, end: datetime) -> bool:
        """Return whether a window may end after `start` and at or before `end`."""
        if isinstance(self.width, Calendar):
            return end > start
        first = (epoch_micros(start) - self.start) // self.width
        last = (epoch_micros(end) - self.start) // self.width
        return first < last

    def compared_ranges(
        self, start: datetime, end: datetime, past: PastWindows
    ) -> list[tuple[datetime, datetime]]:
        """Return the ranges of starts of the past windows of those that end in a time range.

        The ranges include a margin for clock changes.
        """
        slack = timedelta(days=1)
        if isinstance(self.width, Calendar):
            distance = self.width if past.every is None else calendar(past.every, self.width.zone)
            length = timedelta(microseconds=(past.count + 1) * distance.max_length)
            return [(_shift_instant(start, -length - slack), end)]
        step = timedelta(microseconds=self._distance(past))
        width = timedelta(microseconds=self.width)
        if self.zone is None:
            slack = timedelta(0)
        return [
            (
                _shift_instant(start, -number * step - width - slack),
                _shift_instant(end, slack - number * step),
            )
            for number in range(past.count + 1)
        ]

    def window(self, start: Column) -> Column:
        """Return the window with a start, as a struct of start and end."""
        if isinstance(self.width, Calendar):
            following_start = self.width.start(self.width.number_at_start(start) + F.lit(1))
            return F.struct(start.alias("start"), following_start.alias("end"))
        end = F.timestamp_micros(F.unix_micros(start) + F.lit(self.width))
        return F.struct(start.alias("start"), end.alias("end"))

    def contains(self, window: Column) -> Column:
        """Return whether a window is on the grid."""
        start = window["start"]
        return (self.window(start)["end"] == window["end"]) & self._is_on_grid(start)

    def date(self, start: Column) -> Column:
        micros = F.unix_micros(self._local_time(start))
        return F.date_from_unix_date(floor_divide(micros, DAY).cast("int"))

    def previous_start(self, start: Column, distance_count: Column, past: PastWindows) -> Column:
        """Return the start of the window `distance_count` distances back; null if none exists."""
        if isinstance(self.width, Calendar):
            steps = distance_count * F.lit(self._periods_between(self.width, past))
            return _period_start(self.width, self.width.number_at_start(start) - steps)
        micros = self._distance(past)
        if self.zone is None or past.every is None:
            return _shift_micros(start, distance_count * F.lit(-micros))
        local_time = _shift_micros(self._local_time(start), distance_count * F.lit(-micros))
        candidate = F.to_utc_timestamp(local_time, F.lit(self.zone))
        exists = (self._local_time(candidate) == local_time) & self._is_on_grid(candidate)
        # Distance 0 is the window itself, also for the second of two equal local times.
        return F.when(distance_count == 0, start).when(exists, candidate)

    def following_starts(self, start: Column, distance_count: Column, past: PastWindows) -> Column:
        """Return an array of the starts of all windows that have this one at a distance back."""
        if isinstance(self.width, Calendar):
            steps = distance_count * F.lit(self._periods_between(self.width, past))
            later = _period_start(self.width, self.width.number_at_start(start) + steps)
            return F.array_compact(F.array(later))
        micros = self._distance(past)
        if self.zone is None or past.every is None:
            return F.array(_shift_micros(start, distance_count * F.lit(micros)))
        # An ambiguous local time is the start of two windows.
        local_time = _shift_micros(self._local_time(start), distance_count * F.lit(micros))
        first = F.to_utc_timestamp(local_time, F.lit(self.zone))
        candidates = [_shift_micros(first, F.lit(seconds * 1_000_000)) for seconds in _DST_SHIFTS]
        existing = F.filter(
            F.array(*candidates),
            lambda candidate: (
                (self._local_time(candidate) == local_time) & self._is_on_grid(candidate)
            ),
        )
        return F.when(distance_count == 0, F.array(start)).otherwise(existing)

    def require_distance(self, past: PastWindows) -> None:
        """Raise for a distance that is not on the grid, such as 90 minutes for hourly windows."""
        if past.every is None:
            return
        if isinstance(self.width, Calendar):
            self._periods_between(self.width, past)
            return
        micros = self._distance(past)
        unit = self.width if self.zone is None else DAY
        if micros % unit:
            allowed = "a multiple of the window size" if self.zone is None else "a number of days"
            raise ArgumentError(f"invalid every: {past.every!r}", allowed, "every='1 week'")

    def _periods_between(self, size: Calendar, past: PastWindows) -> int:
        """Return the number of calendar periods in one distance."""
        if past.every is None:
            return 1
        every = calendar(past.every, size.zone, label="every")
        if every.in_months != size.in_months or every.length % size.length:
            raise ArgumentError(
                f"invalid every: {past.every!r}",
                "a multiple of the window size: days or weeks for days and weeks, months or years "
                "for months and years",
            )
        return every.length // size.length

    def _distance(self, past: PastWindows) -> int:
        assert not isinstance(self.width, Calendar)
        return self.width if past.every is None else fixed_micros(past.every, "every")

    def _local_time(self, start: Column) -> Column:
        return start if self.zone is None else F.from_utc_timestamp(start, F.lit(self.zone))

    def _is_on_grid(self, start: Column) -> Column:
        if isinstance(self.width, Calendar):
            return self.width.start(self.width.number_at_start(start)) == start
        return F.pmod(F.unix_micros(start) - F.lit(self.start), F.lit(self.width)) == 0


def window_grid(size: str | timedelta, offset: str | timedelta, zone: str | None) -> WindowGrid:
    """Return the grid of a window size; with a zone, a fixed size must divide an hour.

    Raises ArgumentError and ColumnTypeError.
    """
    if zone is not None and is_calendar_period(size):
        return WindowGrid(calendar(size, zone, offset), 0, zone)
    if zone is not None:
        calendar("1 day", zone)
    width = fixed_micros(size, "size")
    if zone is not None and _HOUR % width:
        raise ArgumentError(
            f"invalid size with zone={zone!r}: {size!r}",
            "a size that divides an hour, or days, weeks, months or years",
            "size='1 hour'",
        )
    return WindowGrid(width, microseconds(offset, "offset", min_value=-(10**18)) % width, zone)


def _period_start(periods: Calendar, number: Column) -> Column:
    """Return the start of a period; null for a period that the zone skipped."""
    start = periods.start(number)
    return F.when(periods.number_at_start(start) == number, start)


def _shift_instant(instant: datetime, shift: timedelta) -> datetime:
    """Return an instant shifted by some time, limited to the range of datetime."""
    earliest = datetime(1, 1, 2, tzinfo=UTC)
    return max(instant, earliest - shift) + shift


def _shift_micros(start: Column, micros: Column) -> Column:
    return F.timestamp_micros(F.unix_micros(start) + micros.cast("bigint"))
