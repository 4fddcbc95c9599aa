"""Cumulative windows: growing step by step up to a size, and then starting anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..calendars import require_zone
from ..columns import names, quoted
from ._grid import Steps, steps
from ._grouping import grouping
from ._panes import by_panes
from .merging import Same
from .window import result_time

CYCLE = "tidegate:cycle"


@dataclass(frozen=True)
class Cumulative:
    """Windows that grow by `step` up to `size`, and then start anew: the day so far, each hour.

    The function `cumulative` says where they lie.

    Args:
        step: by how much a window is longer than the one before.
        size: the length of the longest window, a multiple of the step.
        offset: shifts the alignment of cycles; any sign.
        zone: the zone whose calendar counts; without one "1 day" is 24 hours of UTC.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    step: str | timedelta
    size: str | timedelta
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        _ = self._steps

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate | Column],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the aggregates of each window and key: window, the by columns, the aggregates."""
        rows = grouping(events, by, aggs, time)
        if self.zone is not None:
            require_zone(events, self.zone)
        return by_panes(rows, _Growing(self._steps))

    def late_at(self, time: Column) -> Column:
        """Return the end of the step that holds an instant.

        Once the watermark has reached it, the window that ends there may be out, and the row is
        left out of all its windows.
        """
        growing = self._steps
        return growing.pane(time, growing.cycle.window(time))["end"]

    def merging(self, by: str | Sequence[str]) -> Same:
        """Return how late rows are merged into windows: into those that are the same."""
        return Same(names(by))

    @property
    def reach(self) -> timedelta:
        """How far before a window's end an event can be that still matters to the window."""
        return timedelta(microseconds=self._steps.cycle.longest)

    @property
    def result_time(self) -> Column:
        """A window's end."""
        return result_time()

    @property
    def _steps(self) -> Steps:
        return steps(self.step, self.size, self.offset, self.zone)


@dataclass(frozen=True)
class _Growing:
    """Steps as panes: a window is made of the steps of its cycle up to its end."""

    steps: Steps

    def placed(self, frame: DataFrame, at: Column) -> DataFrame:
        """Add the cycle of each row."""
        return frame.withColumn(CYCLE, self.steps.cycle.window(at))

    def pane(self, at: Column) -> Column:
        """Return the step that holds an instant."""
        return self.steps.pane(at, quoted(CYCLE))

    def windows(self, at: Column) -> Column:
        """Return the windows that end with an instant's step, or with a later step of its cycle."""
        start = quoted(CYCLE)["start"].alias("start")
        ends = self.steps.ends(at, quoted(CYCLE))
        return F.transform(ends, lambda end: F.struct(start, end.alias("end")))


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
    """Aggregate the events of each key from the start of a cycle to the end of each of its steps.

    Of a cycle that starts at c, the windows are [c, c + step), [c, c + 2 steps) and so on up to [c,
    c + size). An event is in the window that ends with its own step and in all later ones of its
    cycle. So a key has a row at the end of every step from its first event of the cycle on, whether
    or not it had events in that step. Cycles start as windows of `tumbling` do. Events with a null
    time are in no window; a null key is a key of its own.

    With a `zone` cycles are periods of its calendar, as in `tumbling`. A step of a fixed length
    must go into 24 hours: it counts from the start of its cycle in hours that pass, and the last
    one is cut at the cycle's end, so that "1 hour" in "1 day" gives 23 or 25 windows where clocks
    change. A step may also be of the calendar: "1 day" in any size, else days in days, weeks in
    weeks, months in months.

    Events are aggregated once, in panes of one step, and the panes are merged into the windows, at
    most size / step for each pane. Aggregates that do not merge (bare Spark aggregate columns) take
    the rows themselves, which a stream keeps until their step has ended.

    State on a stream: one partial for each key and open pane, and one for each open window that
    holds a closed pane. A row within the watermark's delay is in all its windows. A row is late
    when its own step's end is at or before the watermark; it is then left out of all its windows,
    so that no window holds a row that an earlier one should have held and has not. In append mode a
    window comes out once, when the watermark reaches its end. A checkpoint is bound to step, size,
    offset, zone, by and aggs.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        step: by how much a window is longer than the one before.
        size: the length of the longest window, a multiple of the step.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too.
        time: the event-time column, a timestamp.
        offset: shifts the alignment of cycles; any sign.
        zone: the zone whose calendar counts, such as "Europe/Berlin"; without one "1 day" is 24
            hours of UTC.

    Returns:
        `window` (struct of start inclusive and end exclusive), the by columns, one column an
        aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: CUMULATE of Flink's SQL, which gives the same rows; panes as in Li et al., No Pane, No
    Gain (2005).

    >>> from tidegate.aggregates import count
    >>> views = {"views": count()}
    >>> so_far = cumulative(clicks, "1 hour", "1 day", by="page", aggs=views, zone="Europe/Berlin")
    >>> so_far.columns, so_far.where("page = '/0'").count()
    (['window', 'page', 'views'], 13)
    """
    window = Cumulative(step, size, offset, zone)
    return window.aggregate(events, by=by, aggs=aggs, time=time)
