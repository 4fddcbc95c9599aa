"""Where windows lie, and which window is how far from which, by elapsed time or a zone's clocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...calendars import DAY, Calendar, calendar, fixed, is_period, whole
from ...durations import microseconds, since_1970
from ...errors import ArgumentError
from .past import Past

_HOUR = 3_600_000_000
_CHANGES = (0, 30 * 60, 60 * 60, 2 * 60 * 60)
"""By how many seconds clocks are set back, at which they show a time twice."""


@dataclass(frozen=True)
class Slots:
    """Windows side by side: `width` microseconds long, or the periods of a calendar.

    A window is known by the instant at which it begins. `zone` is that of dates and of distances.
    """

    width: int | Calendar
    start: int
    zone: str | None

    def begin_as(self, others: Slots) -> bool:
        """Return whether these are the same windows, whatever the zone of distances."""
        return (self.width, self.start) == (others.width, others.start)

    def is_any_over(self, after: datetime, until: datetime) -> bool:
        """Return whether a window may end after the first instant, and not after the second."""
        if isinstance(self.width, Calendar):
            return until > after
        first = (since_1970(after) - self.start) // self.width
        last = (since_1970(until) - self.start) // self.width
        return first < last

    def nearby(
        self, after: datetime, until: datetime, past: Past
    ) -> list[tuple[datetime, datetime]]:
        """Return the spans in which windows begin that those ending in between are compared with.

        The spans are wide enough for any change of clocks.
        """
        slack = timedelta(days=1)
        if isinstance(self.width, Calendar):
            longest = self.width if past.every is None else calendar(past.every, self.width.zone)
            length = timedelta(microseconds=(past.count + 1) * longest.longest)
            return [(_moment(after, -length - slack), until)]
        step = timedelta(microseconds=self._distance(past))
        width = timedelta(microseconds=self.width)
        if self.zone is None:
            slack = timedelta(0)
        return [
            (_moment(after, -number * step - width - slack), _moment(until, slack - number * step))
            for number in range(past.count + 1)
        ]

    def window(self, begin: Column) -> Column:
        """Return the window that begins at an instant: a struct of start and end."""
        if isinstance(self.width, Calendar):
            after = self.width.start(self.width.begun(begin) + F.lit(1))
            return F.struct(begin.alias("start"), after.alias("end"))
        end = F.timestamp_micros(F.unix_micros(begin) + F.lit(self.width))
        return F.struct(begin.alias("start"), end.alias("end"))

    def is_one(self, window: Column) -> Column:
        """Return whether a window is one of these."""
        begin = window["start"]
        return (self.window(begin)["end"] == window["end"]) & self._on_grid(begin)

    def date(self, begin: Column) -> Column:
        """Return the date on which a window begins, by the zone's clocks."""
        micros = F.unix_micros(self._shown(begin))
        return F.date_from_unix_date(whole(micros, DAY).cast("int"))

    def before(self, begin: Column, number: Column, past: Past) -> Column:
        """Return the beginning of the window `number` distances before; null where there is none.

        number: a whole number, 0 or more.
        """
        if isinstance(self.width, Calendar):
            steps = number * F.lit(self._periods(self.width, past))
            return _period(self.width, self.width.begun(begin) - steps)
        micros = self._distance(past)
        if self.zone is None or past.every is None:
            return _moved(begin, number * F.lit(-micros))
        shown = _moved(self._shown(begin), number * F.lit(-micros))
        found = F.to_utc_timestamp(shown, F.lit(self.zone))
        there = (self._shown(found) == shown) & self._on_grid(found)
        # A window is at no distance from itself, also the second one of its time by the clocks.
        return F.when(number == 0, begin).when(there, found)

    def after(self, begin: Column, number: Column, past: Past) -> Column:
        """Return an array of the beginnings of all windows that have this one so far before."""
        if isinstance(self.width, Calendar):
            steps = number * F.lit(self._periods(self.width, past))
            later = _period(self.width, self.width.begun(begin) + steps)
            return F.array_compact(F.array(later))
        micros = self._distance(past)
        if self.zone is None or past.every is None:
            return F.array(_moved(begin, number * F.lit(micros)))
        # A time that the clocks show twice is that of two windows.
        shown = _moved(self._shown(begin), number * F.lit(micros))
        first = F.to_utc_timestamp(shown, F.lit(self.zone))
        may_be = [_moved(first, F.lit(seconds * 1_000_000)) for seconds in _CHANGES]
        found = F.filter(
            F.array(*may_be), lambda at: (self._shown(at) == shown) & self._on_grid(at)
        )
        return F.when(number == 0, F.array(begin)).otherwise(found)

    def require_distance(self, past: Past) -> None:
        """Refuse a distance at which there are no windows, such as 90 minutes for hours."""
        if past.every is None:
            return
        if isinstance(self.width, Calendar):
            self._periods(self.width, past)
            return
        micros = self._distance(past)
        unit = self.width if self.zone is None else DAY
        if micros % unit:
            kind = "multiple of the windows' size" if self.zone is None else "number of whole days"
            raise ArgumentError(f"every is {past.every!r}.", f"a {kind}.", "every='1 week'")

    def _periods(self, size: Calendar, past: Past) -> int:
        """Return how many periods are between a window and the next one of its past."""
        if past.every is None:
            return 1
        every = calendar(past.every, size.zone, what="every")
        if every.months != size.months or every.length % size.length:
            raise ArgumentError(
                f"every is {past.every!r}.",
                "a whole number of the windows' size: days and weeks for those, months for months.",
            )
        return every.length // size.length

    def _distance(self, past: Past) -> int:
        assert not isinstance(self.width, Calendar)
        return self.width if past.every is None else fixed(past.every, "every")

    def _shown(self, begin: Column) -> Column:
        return begin if self.zone is None else F.from_utc_timestamp(begin, F.lit(self.zone))

    def _on_grid(self, begin: Column) -> Column:
        if isinstance(self.width, Calendar):
            return self.width.start(self.width.begun(begin)) == begin
        return F.pmod(F.unix_micros(begin) - F.lit(self.start), F.lit(self.width)) == 0


def slots(size: str | timedelta, offset: str | timedelta, zone: str | None) -> Slots:
    """Return the windows of a size, of which those of a fixed length must go into an hour by zone.

    Raises ArgumentError and ColumnTypeError.
    """
    if zone is not None and is_period(size):
        return Slots(calendar(size, zone, offset), 0, zone)
    if zone is not None:
        calendar("1 day", zone)
    width = fixed(size, "size")
    if zone is not None and _HOUR % width:
        raise ArgumentError(
            f"size is {size!r}, with zone={zone!r}: clocks change by an hour, and such windows do "
            "not.",
            "with a zone windows that go into an hour, or whole days, weeks, months or years.",
            "size='1 hour'",
        )
    return Slots(width, microseconds(offset, "offset", least=-(10**18)) % width, zone)


def _period(periods: Calendar, number: Column) -> Column:
    """Return where a period begins; null for one that the zone has skipped, as long as nothing."""
    begin = periods.start(number)
    return F.when(periods.begun(begin) == number, begin)


def _moment(instant: datetime, later: timedelta) -> datetime:
    """Return an instant moved by some time, and no earlier than the first that there can be."""
    earliest = datetime(1, 1, 2, tzinfo=UTC)
    return max(instant, earliest - later) + later


def _moved(begin: Column, micros: Column) -> Column:
    return F.timestamp_micros(F.unix_micros(begin) + micros.cast("bigint"))
