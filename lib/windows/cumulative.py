"""Cumulative windows: growing step by step up to a size, and then starting anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import quoted
from ._calendar import require_zone
from ._grid import Steps, steps
from ._grouping import SPAN, WINDOW, Grouping, grouping, marked

CYCLE = "tidegate:cycle"
END = "tidegate:end"


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
    """Aggregate the events of each key from the start of a cycle of `size` to the end of each `step`: the day so far.

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

    Where all aggregates merge, events are aggregated once, in panes of one step, and the panes are
    merged into the windows, at most size / step for each pane. Else each event is copied into each
    of its windows.

    State on a stream: one partial for each key and open pane, and one for each open window that
    holds a closed pane. A row within the watermark's delay is in all its windows. A row is late
    when its own step's end is at or before the watermark; it is then left out of all its windows,
    so that no window holds a row that an earlier one should have held and has not. Where events are
    copied, it is left out only of those that have closed. In append mode a window comes out once,
    when the watermark reaches its end. A checkpoint is bound to step, size, offset, zone, by and
    aggs.

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
    >>> so_far = cumulative(clicks, "1 hour", "1 day", by="page", aggs={"views": count()}, zone="Europe/Berlin")
    >>> so_far.columns, so_far.where("page = '/0'").count()
    (['window', 'page', 'views'], 13)
    """
    rows = grouping(events, by, aggs, time)
    growing = steps(step, size, offset, zone)
    if zone is not None:
        require_zone(events, zone)
    return (by_copies if rows.mergeable is None else by_panes)(rows, growing)


def by_copies(rows: Grouping, growing: Steps) -> DataFrame:
    """Aggregate each window by itself, from a copy of each event for each window that it is in."""
    events = rows.events.where(rows.at.isNotNull())
    return replace(rows, events=expanded(events, rows.time, rows.at, growing)).over(quoted(SPAN))


def by_panes(rows: Grouping, growing: Steps) -> DataFrame:
    """Aggregate panes of one step, then merge those of each window."""
    events = in_cycles(rows.events, rows.at, growing)
    panes = replace(rows.parts(), events=events).spanning(growing.pane(rows.at, quoted(CYCLE)))
    return rows.merged(expanded(panes, WINDOW, quoted(WINDOW)["start"], growing), quoted(SPAN))


def expanded(frame: DataFrame, time: str, at: Column, growing: Steps) -> DataFrame:
    """Return a copy of each row for each window that holds the instant `at`; `time` is the column
    with the watermark."""
    copies = in_cycles(frame, at, growing).withColumn(
        END, F.explode(growing.ends(at, quoted(CYCLE)))
    )
    return marked(
        copies, time, F.struct(quoted(CYCLE)["start"].alias("start"), quoted(END).alias("end"))
    )


def in_cycles(frame: DataFrame, at: Column, growing: Steps) -> DataFrame:
    """Add the cycle of each row, in a column of its own so that it is computed once."""
    return frame.withColumn(CYCLE, growing.cycle.window(at))
