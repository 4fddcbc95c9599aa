"""The grid that windows stand on: where each window begins and ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..calendars import DAY, Calendar, calendar, earlier, fixed, is_period, whole
from ..durations import microseconds
from ..errors import ArgumentError


def floor(time: Column, width: int, start: int = 0) -> Column:
    """Return the last edge of a grid at or before the time.

    The edges are `width` microseconds apart, and one is `start` microseconds after 1970 began.
    """
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros - F.lit(start), F.lit(width)))


def shift(offset: str | timedelta, width: int) -> int:
    """Return an alignment in microseconds that is at least 0 and less than one width."""
    return microseconds(offset, "offset", least=-(10**18)) % width


def pane(width: int) -> int:
    """Return the length of a sliding window's panes, a microsecond more than its width.

    Both ends belong to such a window.
    """
    return width + 1


@dataclass(frozen=True)
class Grid:
    """Windows of `width` microseconds, side by side.

    One of them starts `start` microseconds after 1970 began.
    """

    width: int
    start: int

    @property
    def longest(self) -> int:
        """The length of a window."""
        return self.width

    def window(self, time: Column) -> Column:
        """Return the window that holds an instant: a struct of start, and end exclusive."""
        begin = floor(time, self.width, self.start)
        return F.struct(begin.alias("start"), earlier(begin, F.lit(-self.width)).alias("end"))


@dataclass(frozen=True)
class Steps:
    """Windows that grow by a step inside a cycle, and start anew with the next.

    A step of a fixed length counts from the start of its cycle, and the last one is cut at the
    cycle's end; steps of a calendar are its own periods.
    """

    cycle: Grid | Calendar
    step: int | Calendar

    def pane(self, time: Column, cycle: Column) -> Column:
        """Return the step of a cycle that holds an instant: a struct of start and exclusive end."""
        if isinstance(self.step, Calendar):
            return self.step.window(time)
        start = F.unix_micros(cycle["start"])
        end = F.unix_micros(cycle["end"])
        begin = start + whole(F.unix_micros(time) - start, self.step) * F.lit(self.step)
        return F.struct(
            F.timestamp_micros(begin).alias("start"),
            F.timestamp_micros(F.least(begin + F.lit(self.step), end)).alias("end"),
        )

    def ends(self, time: Column, cycle: Column) -> Column:
        """Return the ends of the steps from an instant's own to the last of its cycle."""
        step = self.step
        if isinstance(step, Calendar):
            numbers = F.sequence(step.number(time), step.number(earlier(cycle["end"], F.lit(1))))
            # A date that the zone has skipped ends where it begins.
            return F.array_distinct(
                F.transform(numbers, lambda number: step.start(number + F.lit(1)))
            )
        start = F.unix_micros(cycle["start"])
        end = F.unix_micros(cycle["end"])

        def end_of(number: Column) -> Column:
            return F.timestamp_micros(F.least(start + (number + F.lit(1)) * F.lit(step), end))

        own = whole(F.unix_micros(time) - start, step)
        last = whole(end - start - F.lit(1), step)
        return F.transform(F.sequence(own, last), end_of)


def steps(
    step: str | timedelta, size: str | timedelta, offset: str | timedelta, zone: str | None
) -> Steps:
    """Return the steps of a size, and refuse those that do not fill it."""
    if zone is None:
        length = fixed(step, "step")
        width = fixed(size, "size")
        if width % length:
            raise _uneven(step, size, "a size that is a multiple of the step.", "1 hour", "1 day")
        return Steps(Grid(width, shift(offset, width)), length)
    cycle = calendar(size, zone, offset)
    if is_period(step):
        period = calendar(step, zone, offset, "step")
        if not cycle.holds(period):
            need = (
                "1 day in any size, else days in days, weeks in weeks, months in months, a whole "
                "number of times."
            )
            raise _uneven(step, size, need, "1 day", "1 month")
        return Steps(cycle, period)
    length = fixed(step, "step")
    if DAY % length:
        raise _uneven(
            step,
            size,
            "with a zone a step that goes into 24 hours, or one of the calendar.",
            "1 hour",
            size,
        )
    return Steps(cycle, length)


def _uneven(
    step: object, size: object, need: str, better_step: object, better_size: object
) -> ArgumentError:
    given = f"step is {step!r} and size={size!r}: the last window of a cycle would not end with it."
    return ArgumentError(given, need, f"step={better_step!r}, size={better_size!r}")
