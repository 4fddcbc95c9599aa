"""Calendar periods in a time zone: days, weeks, months, quarters and years."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .columns import add_micros
from .durations import DURATION_FORMS, microseconds
from .errors import ArgumentError, ColumnTypeError

DAY = 86_400_000_000
PERIOD_FORMS = "days, weeks, months, quarters or years, such as '1 day', '2 weeks' or '1 month'"

_PERIOD = re.compile(r"\s*(\d+)\s+(day|week|month|quarter|year)s?\s*", re.IGNORECASE)
_UNITS = {
    "day": (1, False),
    "week": (7, False),
    "month": (1, True),
    "quarter": (3, True),
    "year": (12, True),
}
_MAX_LENGTH = {False: 36_525, True: 1_200}
_EPOCH_DAYS_AFTER_MONDAY = 3
_REGIONS = ("Europe/", "America/", "Asia/", "Australia/", "Africa/", "Pacific/")


@dataclass(frozen=True)
class Calendar:
    """Periods of `length` days or months in the local time of `zone`.

    Periods are numbered from the one that contains 1970-01-01. A period starts at local midnight of
    its first date plus `shift` microseconds. If a clock change repeats that local time, the period
    starts at the first occurrence; if a clock change skips it, the start moves forward by the
    length of the skip. Weeks are periods of 7 days that start on a Monday.

    >>> calendar("1 quarter", "Europe/Berlin")
    Calendar(length=3, in_months=True, from_monday=False, zone='Europe/Berlin', shift=0)
    """

    length: int
    in_months: bool
    from_monday: bool
    zone: str
    shift: int = 0

    def window(self, time: Column) -> Column:
        """Return the period that contains an instant: a struct of start and exclusive end."""
        candidate = self._number_by_clock_date(time)
        previous_start = self.start(candidate - F.lit(1))
        start = self.start(candidate)
        end = self.start(candidate + F.lit(1))
        next_end = self.start(candidate + F.lit(2))
        is_over = time >= end
        is_early = time < start
        own_start = F.when(is_over, end).when(is_early, previous_start).otherwise(start)
        own_end = F.when(is_over, next_end).when(is_early, start).otherwise(end)
        return F.struct(own_start.alias("start"), own_end.alias("end"))

    def number(self, time: Column) -> Column:
        """Return the number of the period that contains an instant."""
        candidate = self._number_by_clock_date(time)
        is_over = time >= self.start(candidate + F.lit(1))
        is_early = time < self.start(candidate)
        return candidate + F.when(is_over, 1).when(is_early, -1).otherwise(0)

    def start(self, number: Column) -> Column:
        """Return the start of a period."""
        day = number * F.lit(self.length)
        if self.in_months:
            first = F.add_months(F.lit(date(1970, 1, 1)), day.cast("int"))
            day = F.unix_date(first)
        midnight = (day - F.lit(self._epoch_offset_days)).cast("bigint") * F.lit(DAY)
        wall = F.timestamp_micros(midnight + F.lit(self.shift))
        return F.to_utc_timestamp(wall, F.lit(self.zone))

    def number_at_start(self, start: Column) -> Column:
        """Return the number of the period that starts at this instant; a period must start there.

        Cheaper than `number`: half a day after its start, the local date always is in the period.
        """
        return self._number_by_clock_date(add_micros(start, DAY // 2))

    def is_multiple_of(self, step: Calendar) -> bool:
        """Return whether each of these periods is a sequence of complete periods of `step`."""
        single_days = step.length == 1 and not step.in_months and not step.from_monday
        same_unit = (self.in_months, self.from_monday) == (step.in_months, step.from_monday)
        return single_days or (same_unit and self.length % step.length == 0)

    def _number_by_clock_date(self, time: Column) -> Column:
        """Return the number of the period that contains the local date of an instant.

        Near a clock change the instant can lie in an adjacent period: clocks set back across the
        start of a period show dates of the previous one, and clocks that skip the start show dates
        of a period that has not started.
        """
        wall = F.unix_micros(F.from_utc_timestamp(time, F.lit(self.zone)))
        day = floor_divide(wall - F.lit(self.shift), DAY)
        if not self.in_months:
            return floor_divide(day + F.lit(self._epoch_offset_days), self.length)
        clock_date = F.date_from_unix_date(day.cast("int"))
        years = F.year(clock_date) - F.lit(1970)
        months = years * F.lit(12) + F.month(clock_date) - F.lit(1)
        return floor_divide(months, self.length)

    @property
    def max_length(self) -> int:
        """The maximum length of a period in microseconds; a day can have 25 hours."""
        days = self.length * 31 if self.in_months else self.length
        return (days + 1) * DAY

    @property
    def _epoch_offset_days(self) -> int:
        return _EPOCH_DAYS_AFTER_MONDAY if self.from_monday else 0


def calendar(
    size: str | timedelta, zone: str, offset: str | timedelta = "0 seconds", label: str = "size"
) -> Calendar:
    """Return the calendar of periods of `size`, such as "1 month", in a time zone.

    Each period starts `offset` after local midnight. `label` is the name of the size in errors.

    Raises:
        ArgumentError, ColumnTypeError: for a size that is not a period, and for an unknown zone.
    """
    _require_zone_name(zone)
    match = _match_period(size)
    if match is None:
        raise ArgumentError(
            f"invalid {label}: {size!r} with zone={zone!r}",
            f"with a zone: {PERIOD_FORMS}; without a zone: {DURATION_FORMS}",
            f"{label}='1 day', or omit zone",
        )
    unit = match[2].lower()
    days, in_months = _UNITS[unit]
    length = int(match[1]) * days
    if not 1 <= length <= _MAX_LENGTH[in_months]:
        raise ArgumentError(
            f"invalid {label}: {size!r}", f"{PERIOD_FORMS}; at least one, and at most a century"
        )
    return Calendar(
        length=length,
        in_months=in_months,
        from_monday=unit == "week",
        zone=zone,
        shift=microseconds(offset, "offset", min_value=-(10**18)),
    )


def is_calendar_period(duration: str | timedelta) -> bool:
    """Return whether a duration is one number of days, weeks, months, quarters or years.

    >>> is_calendar_period("2 weeks"), is_calendar_period("36 hours")
    (True, False)
    """
    return _match_period(duration) is not None


def _match_period(duration: str | timedelta) -> re.Match[str] | None:
    return _PERIOD.fullmatch(duration) if isinstance(duration, str) else None


def fixed_micros(duration: str | timedelta, label: str) -> int:
    """Return a fixed duration in microseconds; raise ArgumentError for months and longer units.

    >>> fixed_micros("1 day", "size")
    86400000000
    """
    match = _match_period(duration)
    if match and _UNITS[match[2].lower()][1]:
        raise ArgumentError(
            f"invalid {label}: {duration!r}; a {match[2].lower()} has no fixed length",
            f"{DURATION_FORMS}; with a zone also {PERIOD_FORMS}",
            "zone='UTC', or another time zone",
        )
    return microseconds(duration, label)


def require_zone(frame: DataFrame, zone: str) -> None:
    """Raise ArgumentError for a zone that Python or Spark does not know, before rows are read."""
    _require_zone_name(zone)
    probe = F.year(F.from_utc_timestamp(F.timestamp_seconds(F.lit(0)), F.lit(zone)))
    try:
        # Spark evaluates the row count of `stack` during analysis, which looks up the zone without
        # a job.
        _ = frame.select(F.stack(probe, F.lit(0))).schema
    except PySparkException as fault:
        raise ArgumentError(
            f"invalid zone: {zone!r} is unknown to Spark's Java",
            "a zone of Java's time zone database, which can be older than Python's",
            "a newer Java, or an equivalent zone",
        ) from fault


def floor_divide(value: Column, divisor: int) -> Column:
    """Return the floor of an integer divided by `divisor`, without conversion to double.

    >>> clicks.select(floor_divide(F.lit(-7), 2).alias("floor")).first()
    Row(floor=-4)
    """
    return F.call_function("div", value - F.pmod(value, F.lit(divisor)), F.lit(divisor))


def _zones_abbreviated(name: str) -> list[str]:
    """Return the zones whose clocks have this abbreviation in winter or summer, such as "CEST"."""
    if not re.fullmatch(r"[A-Z]{3,5}", name):
        return []
    regions = [
        zone
        for region in _REGIONS
        for zone in sorted(available_timezones())
        if zone.startswith(region)
    ]
    days = (datetime(2026, 1, 1), datetime(2026, 7, 1))
    return [
        zone
        for zone in regions
        if name in {day.replace(tzinfo=ZoneInfo(zone)).tzname() for day in days}
    ]


def _require_zone_name(zone: str) -> None:
    if not isinstance(zone, str):
        raise ColumnTypeError(
            f"invalid zone: {zone!r} ({type(zone).__name__})", "a name such as 'Europe/Berlin'"
        )
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        similar = _zones_abbreviated(zone) or get_close_matches(zone, available_timezones(), n=1)
        raise ArgumentError(
            f"invalid zone: {zone!r}",
            "a name of the IANA time zone database, such as 'Europe/Berlin' or 'UTC'",
            f"zone={similar[0]!r}" if similar else "",
        ) from None
