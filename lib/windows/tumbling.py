"""Tumbling windows: of fixed length, side by side, each event in exactly one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..calendars import Calendar, calendar, fixed, require_zone
from ..columns import names
from ..durations import interval
from ._grid import Grid, shift
from ._grouping import grouping
from ._roll_up import roll_up
from .merging import Same
from .window import result_time


@dataclass(frozen=True)
class Tumbling:
    """Windows [start, start + size), side by side: of a fixed length, or of a zone's calendar.

    The function `tumbling` says where they lie.

    Args:
        size: the length of a window, a microsecond or more; with a zone whole days, weeks, months,
            quarters or years.
        offset: shifts the alignment; any sign.
        zone: the zone whose calendar counts; without one "1 day" is 24 hours of UTC.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    size: str | timedelta
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        _ = self._grid

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
        grid = self._grid
        if isinstance(grid, Grid):
            return rows.over(F.window(rows.at, interval(grid.width), None, interval(grid.start)))
        require_zone(events, grid.zone)
        return rows.spanning(grid.window(rows.at))

    def roll_up(
        self, panes: DataFrame, *, by: str | Sequence[str] = (), aggs: Mapping[str, Aggregate]
    ) -> DataFrame:
        """Return the partials of smaller windows merged into these; see `rolled_up`."""
        if self.zone is not None:
            require_zone(panes, self.zone)
        return roll_up(panes, self._grid, by, aggs)

    def late_at(self, time: Column) -> Column:
        """Return the end of the window that holds an instant."""
        return self._grid.window(time)["end"]

    def merging(self, by: str | Sequence[str]) -> Same:
        """Return how late rows are merged into windows: into those that are the same."""
        return Same(names(by))

    @property
    def reach(self) -> timedelta:
        """How far before a window's end an event can be that still matters to the window."""
        return timedelta(microseconds=self._grid.longest)

    @property
    def result_time(self) -> Column:
        """A window's end."""
        return result_time()

    @property
    def _grid(self) -> Grid | Calendar:
        if self.zone is not None:
            return calendar(self.size, self.zone, self.offset)
        width = fixed(self.size, "size")
        return Grid(width, shift(self.offset, width))


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
    >>> (month,) = months.collect()
    >>> (month.window.end - month.window.start).days
    31
    """
    return Tumbling(size, offset, zone).aggregate(events, by=by, aggs=aggs, time=time)


def rolled_up(
    panes: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate],
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
) -> DataFrame:
    """Merge the partials of each key whose windows lie in one larger window.

    The partials stay unfinished.

    `panes` is what a transform gives for `aggs=partials(aggs)`: a stored table, or a micro-batch
    inside a sink. Windows are those of `tumbling` with the same size, offset and zone, and keys
    that `by` leaves out are merged: minutes by page become hours by page, or hours of all pages.
    Merging what was rolled up once more, with late rows of a minute that is in already, gives the
    same as rolling up all at once. It holds no state; as a stream it is refused.

    Args:
        panes: `window`, key columns, and a partial for each of `aggs`.
        size: the larger windows' length; with a zone whole days, weeks, months, quarters or years.
        by: the key columns that stay.
        aggs: the aggregates that the partials are of.
        offset: shifts the alignment of the larger windows.
        zone: the zone whose calendar counts.

    Returns:
        `window`, the by columns, the partials; `tidegate.aggregates.finished` turns them into
        answers.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. When it runs, an error for a
        window that two larger ones share, such as an hour of a zone whose days begin at half past.

    >>> from tidegate.aggregates import count, finished, partials
    >>> from tidegate.windows import tumbling
    >>> aggs = {"views": count()}
    >>> minutes = tumbling(clicks, "1 minute", by="page", aggs=partials(aggs))
    >>> finished(rolled_up(minutes, "1 hour", aggs=aggs), aggs).columns
    ['window', 'views']
    """
    return Tumbling(size, offset, zone).roll_up(panes, by=by, aggs=aggs)
