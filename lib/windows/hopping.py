"""Hopping windows: of fixed length, one starting at each hop, so that they overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import interval, microseconds, quoted
from ..errors import ArgumentError
from ._grid import panes_pay, shift
from ._grouping import WINDOW, Grouping, grouping


def hopping(
    events: DataFrame,
    size: str | timedelta,
    hop: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate | Column],
    time: str = "event_time",
    offset: str | timedelta = "0 seconds",
) -> DataFrame:
    """Aggregate the events of each key in windows [start, start + size), one starting every `hop`.

    Windows start at 1970-01-01 00:00:00 UTC plus `offset` plus multiples of `hop`. An event is in
    size / hop windows (rounded down or up where that is no whole number). Events with a null time
    are in no window; a null key is a key.

    Where an event would be in eight windows or more, all aggregates merge and size is a multiple of
    hop, the events are aggregated once, in panes of one hop, and the panes are merged. The rows are
    the same either way.

    State on a stream: by panes one partial for each key and pane of the open windows, and one for
    each open window; else one for each key and open window. A row within the watermark's delay is
    in all its windows. A later one is left out of windows that have closed; by panes it is left out
    of all of them once its pane has closed. In append mode a window comes out once, when the
    watermark reaches its end. A checkpoint is bound to size, hop, offset, by and aggs.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window.
        hop: from one window's start to the next; at most `size`, or events between windows would be
            lost.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too.
        time: the event-time column, a timestamp.
        offset: shifts the alignment; any sign.

    Returns:
        `window` (struct of start inclusive and end exclusive), the by columns, one column an
        aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes as in Li et al., No Pane, No Gain (2005).

    >>> from tidegate.aggregates import count
    >>> hopping(clicks, "1 minute", "10 seconds", by="page", aggs={"views": count()}).columns
    ['window', 'page', 'views']
    """
    rows = grouping(events, by, aggs, time)
    width, step = microseconds(size, "size"), microseconds(hop, "hop")
    if step > width:
        raise ArgumentError(
            f"hop is {hop!r}, longer than size={size!r}: events in the gaps between windows would "
            "be lost.",
            "a hop of at most the size.",
            f"hop={size!r}, which is tumbling(events, {size!r}).",
        )
    panes = rows.mergeable is not None and panes_pay(width, step)
    return (by_panes if panes else by_copies)(rows, width, step, shift(offset, step))


def by_copies(rows: Grouping, width: int, step: int, start: int) -> DataFrame:
    """Aggregate each window by itself, from a copy of each event for each window that it is in."""
    return rows.over(F.window(rows.at, interval(width), interval(step), interval(start)))


def by_panes(rows: Grouping, width: int, step: int, start: int) -> DataFrame:
    """Aggregate panes of one step, then merge the panes of each window."""
    panes = rows.parts().over(F.window(rows.at, interval(step), None, interval(start)))
    return rows.merged(
        panes,
        F.window(F.window_time(quoted(WINDOW)), interval(width), interval(step), interval(start)),
    )
