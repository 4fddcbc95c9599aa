"""Calendar periods by the wall clock of a zone: days, weeks and months, and where each begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .durations import DURATION_FORMS, microseconds
from .errors import ArgumentError, ColumnTypeError

DAY = 86_400_000_000
PERIODS = "whole days, weeks, months, quarters or years, such as '1 day', '2 weeks' or '1 month'"

_PERIOD = re.compile(r"\s*(\d+)\s+(day|week|month|quarter|year)s?\s*", re.IGNORECASE)
_UNITS = {
    "day": (1, False),
    "week": (7, False),
    "month": (1, True),
    "quarter": (3, True),
    "year": (12, True),
}
_LONGEST = {False: 36_525, True: 1_200}
_MONDAY = 3


@dataclass(frozen=True)
class Calendar:
    """Periods of `length` days or months by the wall clock of `zone`.

    They are numbered from the one that holds 1970-01-01.

    A period begins when the zone's clocks show midnight of its first date plus `shift`
    microseconds: where they show that twice, at the first time; where they skip it, as far after
    the skip as it is after the last time shown. For midnight this is the day's first instant, since
    clocks that skip midnight skip from it on (those of Toronto in 1919, from 23:30, are the one
    exception in the zones' history). Weeks are periods of 7 days, counted from a Monday.
    """

    length: int
    months: bool
    monday: bool
    zone: str
    shift: int = 0

    def window(self, time: Column) -> Column:
        """Return the period that holds an instant: a struct of start, and end exclusive."""
        shown = self._shown(time)
        before = self.start(shown - F.lit(1))
        start = self.start(shown)
        end = self.start(shown + F.lit(1))
        after = self.start(shown + F.lit(2))
        is_over = time >= end
        is_early = time < start
        own_start = F.when(is_over, end).when(is_early, before).otherwise(start)
        own_end = F.when(is_over, after).when(is_early, start).otherwise(end)
        return F.struct(own_start.alias("start"), own_end.alias("end"))

    def number(self, time: Column) -> Column:
        """Return the number of the period that holds an instant."""
        shown = self._shown(time)
        is_over = time >= self.start(shown + F.lit(1))
        is_early = time < self.start(shown)
        return shown + F.when(is_over, 1).when(is_early, -1).otherwise(0)

    def start(self, number: Column) -> Column:
        """Return the instant at which a period begins."""
        day = number * F.lit(self.length)
        if self.months:
            first = F.add_months(F.lit(date(1970, 1, 1)), day.cast("int"))
            day = F.unix_date(first)
        midnight = (day - F.lit(self._ahead)).cast("bigint") * F.lit(DAY)
        wall = F.timestamp_micros(midnight + F.lit(self.shift))
        return F.to_utc_timestamp(wall, F.lit(self.zone))

    def begun(self, start: Column) -> Column:
        """Return the number of the period that begins at this instant; a period must begin there.

        It costs less than `number`: half a day on, clocks show a date that is surely the period's.
        """
        return self._shown(earlier(start, F.lit(-DAY // 2)))

    def holds(self, step: Calendar) -> bool:
        """Return whether each of these periods is filled by whole periods of `step`."""
        single_days = step.length == 1 and not step.months and not step.monday
        same_kind = (self.months, self.monday) == (step.months, step.monday)
        return single_days or (same_kind and self.length % step.length == 0)

    def _shown(self, time: Column) -> Column:
        """Return the number of the period whose dates the clocks show.

        The instant may be in a period beside it. Clocks that are set back across a period's
        beginning show the dates of the period before, though that is over; clocks that skip the
        beginning show the dates of a period that has not begun.
        """
        wall = F.unix_micros(F.from_utc_timestamp(time, F.lit(self.zone)))
        day = whole(wall - F.lit(self.shift), DAY)
        if not self.months:
            return whole(day + F.lit(self._ahead), self.length)
        date_shown = F.date_from_unix_date(day.cast("int"))
        years = F.year(date_shown) - F.lit(1970)
        months = years * F.lit(12) + F.month(date_shown) - F.lit(1)
        return whole(months, self.length)

    @property
    def longest(self) -> int:
        """The most microseconds that a period can last: days have 25 hours where clocks go back."""
        days = self.length * 31 if self.months else self.length
        return (days + 1) * DAY

    @property
    def _ahead(self) -> int:
        return _MONDAY if self.monday else 0


def calendar(
    size: str | timedelta, zone: str, offset: str | timedelta = "0 seconds", what: str = "size"
) -> Calendar:
    """Return the periods of a size such as "1 month" in a zone.

    Each begins `offset` past midnight by the wall clock. `what` names the size in errors.

    Raises:
        ArgumentError, ColumnTypeError: for a size that is no period, and for an unknown zone.
    """
    _require_named(zone)
    match = _PERIOD.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise ArgumentError(
            f"{what} is {size!r}, with zone={zone!r}.",
            f"with a zone: {PERIODS}; without one {DURATION_FORMS}.",
            f"{what}='1 day', or leave zone out.",
        )
    unit = match[2].lower()
    days, months = _UNITS[unit]
    length = int(match[1]) * days
    if not 1 <= length <= _LONGEST[months]:
        raise ArgumentError(
            f"{what} is {size!r}.", f"{PERIODS}; at least one, and no more than a century."
        )
    return Calendar(
        length=length,
        months=months,
        monday=unit == "week",
        zone=zone,
        shift=microseconds(offset, "offset", least=-(10**18)),
    )


def is_period(duration: str | timedelta) -> bool:
    """Return whether a duration is written in units of the calendar alone."""
    return isinstance(duration, str) and _PERIOD.fullmatch(duration) is not None


def fixed(duration: str | timedelta, what: str) -> int:
    """Return a fixed duration in microseconds; refuse months, which have none without a zone."""
    match = _PERIOD.fullmatch(duration) if isinstance(duration, str) else None
    if match and _UNITS[match[2].lower()][1]:
        raise ArgumentError(
            f"{what} is {duration!r}, and a {match[2].lower()} has no fixed length.",
            f"{DURATION_FORMS}; with a zone also {PERIODS}.",
            "zone='UTC', or the zone in which its days begin.",
        )
    return microseconds(duration, what)


def require_zone(frame: DataFrame, zone: str) -> None:
    """Refuse a zone that Python or Spark does not know, before any row is read."""
    _require_named(zone)
    there = F.year(F.from_utc_timestamp(F.timestamp_seconds(F.lit(0)), F.lit(zone)))
    try:
        # stack's number of rows is computed when the plan is analysed, so the zone is looked up and
        # no job runs.
        _ = frame.select(F.stack(there, F.lit(0))).schema
    except PySparkException as fault:
        raise ArgumentError(
            f"zone is {zone!r}, which Spark's Java does not know.",
            "a zone of Java's own table of zones, which may be older than Python's.",
            "a newer Java, or a zone with the same clocks.",
        ) from fault


def whole(value: Column, by: int) -> Column:
    """Return how often `by` goes into a whole number, rounded down, without doubles in between."""
    return F.call_function("div", value - F.pmod(value, F.lit(by)), F.lit(by))


def earlier(time: Column, micros: Column) -> Column:
    """Return the instant `micros` microseconds before another."""
    return F.timestamp_micros(F.unix_micros(time) - micros)


def _require_named(zone: str) -> None:
    if not isinstance(zone, str):
        raise ColumnTypeError(
            f"zone is {zone!r}, a {type(zone).__name__}.", "a zone's name such as 'Europe/Berlin'."
        )
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        near = get_close_matches(zone, available_timezones(), n=1)
        raise ArgumentError(
            f"zone is {zone!r}, which is no known zone.",
            "a name of the IANA time zone database, such as 'Europe/Berlin' or 'UTC'.",
            f"zone={near[0]!r}" if near else "",
        ) from None
