"""Cumulative windows: windows that grow by a step up to a maximum size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..calendars import (
    DAY,
    Calendar,
    calendar,
    fixed_micros,
    floor_divide,
    is_calendar_period,
    require_zone,
)
from ..columns import add_micros, quoted_column
from ..errors import ArgumentError
from ._grouping import (
    FixedGrid,
    Grouping,
    aggregate_by_panes,
    alignment_micros,
    as_window,
    require_window_limit,
)
from .window import Window

CYCLE = "tidegate:cycle"


@dataclass(frozen=True)
class Cumulative(Window):
    """Windows that grow by `step` up to `size`, then restart; see the function `cumulative`.

    Raises ArgumentError and ColumnTypeError at construction, also for more than 20,000 windows per
    event.

    >>> Cumulative("1 hour", "1 day").lookback
    datetime.timedelta(days=1)
    """

    plan_name: ClassVar[str] = "cumulative"
    step: str | timedelta
    size: str | timedelta
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        _ = self._steps

    def _aggregate(self, rows: Grouping) -> DataFrame:
        if self.zone is not None:
            require_zone(rows.events, self.zone)
        return aggregate_by_panes(rows, self._steps)

    def late_at(self, time: Column) -> Column:
        """Return the end of the step that contains an instant.

        A row that arrives after this watermark is dropped from all its windows.
        """
        steps = self._steps
        return steps.step_at(time, steps.cycle.window(time))["end"]

    @property
    def lookback(self) -> timedelta:
        """How far before the end of a window its events can be."""
        return timedelta(microseconds=self._steps.cycle.max_length)

    @property
    def _steps(self) -> _CycleSteps:
        return _build_steps(self.step, self.size, self.offset, self.zone)


def cumulative(
    events: DataFrame,
    step: str | timedelta,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate | Column],
    time: str = "event_time",
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
) -> DataFrame:
    """Aggregate the events of each key since the start of a cycle, with one result per `step`.

    The windows of a cycle that starts at c are [c, c + step), [c, c + 2 step), ..., [c, c + size).
    An event is in the window that ends with its step and in all later windows of its cycle. From
    the first event of a key in a cycle, the key therefore has a row for every step, including steps
    without events. Cycles are aligned like the windows of `tumbling`. Events with a null time are
    in no window; a null key is a separate key.

    With a `zone`, cycles are periods of its calendar, as in `tumbling`. A step of a fixed length
    must divide 24 hours; steps count elapsed time from the start of the cycle, and the last step
    ends with the cycle, so that "1 hour" in "1 day" has 23 or 25 windows on days with a clock
    change. A calendar step is "1 day" in any size, or days in days, weeks in weeks, months in
    months.

    Each event is aggregated once, in the pane of its step, and panes are merged into windows, at
    most size / step for each pane. For aggregates that do not merge (Spark aggregate columns) a
    stream stores the rows until their step ends.

    State on a stream: one partial for each key and open pane, and one for each open window with a
    closed pane. A row is late, and dropped from all its windows, when the end of its step is at or
    before the watermark; a window thus never contains a row that an earlier window of its cycle
    missed. A window is emitted once, when the watermark reaches its end; the output mode must be
    "append". Changing step, size, offset, zone, by or aggs requires a new checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        step: the difference in length between consecutive windows.
        size: the maximum length of a window, a multiple of the step.
        by: the key columns.
        aggs: the aggregate of each result column; also Spark aggregate columns.
        time: the event-time column, a timestamp.
        offset: shifts the alignment of cycles; any sign.
        zone: the time zone of the calendar, such as "Europe/Berlin"; without it, "1 day" is 24
            hours in UTC.

    Returns:
        `window` (struct of inclusive start and exclusive end), the by columns, the aggregates.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: CUMULATE of Flink SQL, which returns the same rows; panes as in Li et al., No Pane, No
    Gain (2005).

    >>> from tidegate.aggregates import count
    >>> views = {"views": count()}
    >>> so_far = cumulative(clicks, "1 hour", "1 day", by="page", aggs=views, zone="Europe/Berlin")
    >>> so_far.columns, so_far.where("page = '/0'").count()
    (['window', 'page', 'views'], 13)
    """
    window = Cumulative(step, size, offset, zone)
    return window.aggregate(events, by=by, aggs=aggs, time=time)


@dataclass(frozen=True)
class _CycleSteps:
    """The steps of a cycle, as panes: a window consists of the steps of its cycle up to its end.

    Steps of a fixed length count from the start of their cycle, and the last one ends with the
    cycle; calendar steps are periods of the calendar.
    """

    cycle: FixedGrid | Calendar
    step: int | Calendar

    def with_pane_inputs(self, frame: DataFrame, instant: Column) -> DataFrame:
        return frame.withColumn(CYCLE, self.cycle.window(instant))

    def pane(self, instant: Column) -> Column:
        return self.step_at(instant, quoted_column(CYCLE))

    def windows(self, instant: Column) -> Column:
        """Return the windows that end with the step of an instant or a later step of its cycle."""
        cycle = quoted_column(CYCLE)
        ends = self._step_ends(instant, cycle)
        return F.transform(ends, lambda end: as_window(cycle["start"], end))

    def step_at(self, time: Column, cycle: Column) -> Column:
        """Return the step that contains an instant: a struct of start and exclusive end."""
        if isinstance(self.step, Calendar):
            return self.step.window(time)
        start = F.unix_micros(cycle["start"])
        begin = start + floor_divide(F.unix_micros(time) - start, self.step) * F.lit(self.step)
        end = F.least(begin + F.lit(self.step), F.unix_micros(cycle["end"]))
        return as_window(F.timestamp_micros(begin), F.timestamp_micros(end))

    def _step_ends(self, time: Column, cycle: Column) -> Column:
        """Return the ends of the steps from that of an instant to the last step of its cycle."""
        step = self.step
        if isinstance(step, Calendar):
            numbers = F.sequence(step.number(time), step.number(add_micros(cycle["end"], -1)))
            # A date that the zone skipped is empty: its end equals its start.
            return F.array_distinct(
                F.transform(numbers, lambda number: step.start(number + F.lit(1)))
            )
        start = F.unix_micros(cycle["start"])
        end = F.unix_micros(cycle["end"])

        def end_of(number: Column) -> Column:
            return F.timestamp_micros(F.least(start + (number + F.lit(1)) * F.lit(step), end))

        first_number = floor_divide(F.unix_micros(time) - start, step)
        last_number = floor_divide(end - start - F.lit(1), step)
        return F.transform(F.sequence(first_number, last_number), end_of)


def _build_steps(
    step: str | timedelta, size: str | timedelta, offset: str | timedelta, zone: str | None
) -> _CycleSteps:
    """Return the steps of a size; raise ArgumentError for a step that does not divide it."""
    if zone is None:
        length = fixed_micros(step, "step")
        width = fixed_micros(size, "size")
        if width % length:
            expected = "a size that is a multiple of the step"
            raise _uneven_steps_error(step, size, expected, "1 hour", "1 day")
        require_window_limit(width, length, "step", step)
        return _CycleSteps(FixedGrid(width, alignment_micros(offset, width)), length)
    cycle = calendar(size, zone, offset)
    if is_calendar_period(step):
        period = calendar(step, zone, offset, "step")
        if not cycle.is_multiple_of(period):
            expected = (
                "1 day in any size, or days in days, weeks in weeks, months in months, with a size "
                "that is a multiple of the step"
            )
            raise _uneven_steps_error(step, size, expected, "1 day", "1 month")
        return _CycleSteps(cycle, period)
    length = fixed_micros(step, "step")
    if DAY % length:
        expected = "with a zone, a step that divides 24 hours, or a calendar period"
        raise _uneven_steps_error(step, size, expected, "1 hour", size)
    require_window_limit(cycle.max_length, length, "step", step)
    return _CycleSteps(cycle, length)


def _uneven_steps_error(
    step: object, size: object, expected: str, better_step: object, better_size: object
) -> ArgumentError:
    return ArgumentError(
        f"invalid step: {step!r} does not divide size={size!r}",
        expected,
        f"step={better_step!r}, size={better_size!r}",
    )
