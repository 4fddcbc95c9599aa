"""Tumbling windows: of fixed length, side by side, each event in exactly one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import interval
from ._calendar import calendar, fixed, require_zone
from ._grid import shift
from ._grouping import grouping


def tumbling(
    events: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate | Column],
    time: str = "event_time",
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
) -> DataFrame:
    """Aggregate the events of each key in windows [start, start + size).

    Windows start at 1970-01-01 00:00:00 UTC plus `offset` plus multiples of `size`, before 1970 as
    after it, whatever the session's time zone. Events with a null time are in no window; a null key
    is a key of its own.

    With a `zone` they are its calendar's: `size` is a number of days, weeks, months, quarters or
    years, and windows start at midnight by the zone's clocks, weeks on Monday and months on the
    1st, so that days last 23 or 25 hours where clocks change. A day whose midnight the clocks skip
    starts at its first instant, one with two at the first of them; a date that was skipped has no
    window. Several days, weeks or months are counted from 1970-01-01, the Monday
    before it, or January 1970: three months are the quarters. `offset` is then a time by the
    clocks: with "6 hours" days start at six in the morning. Zones are Java's, as old as it is.

    State on a stream: one partial for each key and open window. A row is late, and is left out,
    when its window's end is at or before the watermark. In append mode a window comes out once,
    when the watermark reaches its end. A checkpoint is bound to size, offset, zone, by and aggs.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window, a microsecond or more.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too.
        time: the event-time column, a timestamp.
        offset: shifts the alignment; any sign.
        zone: the zone whose calendar counts, such as "Europe/Berlin"; without one "1 day" is 24
            hours of UTC.

    Returns:
        `window` (struct of start inclusive and end exclusive), the by columns, one column an
        aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: fixed windows of Akidau et al., The Dataflow Model (2015).

    >>> from tidegate.aggregates import count, mean
    >>> tumbling(clicks, "5 minutes", by="page", aggs={"views": count(), "ms": mean("ms")}).columns
    ['window', 'page', 'views', 'ms']
    >>> months = tumbling(clicks, "1 month", aggs={"views": count()}, zone="Europe/Berlin")
    >>> [row.window.end.timestamp() - row.window.start.timestamp() == 31 * 86_400 for row in months.collect()]
    [True]
    """
    rows = grouping(events, by, aggs, time)
    if zone is not None:
        require_zone(events, zone)
        return rows.spanning(calendar(size, zone, offset).window(rows.at))
    width = fixed(size, "size")
    return rows.over(F.window(rows.at, interval(width), None, interval(shift(offset, width))))
