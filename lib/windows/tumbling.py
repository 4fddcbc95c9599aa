"""Tumbling windows: contiguous windows of a fixed length or of calendar periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merge_partials
from ..calendars import Calendar, calendar, fixed_micros, require_zone
from ..columns import require_column_names, require_columns
from ..durations import interval_text
from ..errors import ArgumentError, ColumnTypeError
from ._grouping import WINDOW, FixedGrid, Grouping, alignment_micros
from .window import Window

_LARGER = "__tidegate_larger"
_WINDOW_TYPE = "struct<start:timestamp,end:timestamp>"


@dataclass(frozen=True)
class Tumbling(Window):
    """Contiguous windows [start, start + size); see the function `tumbling`.

    Raises ArgumentError and ColumnTypeError at construction.

    >>> Tumbling("1 minute").lookback
    datetime.timedelta(seconds=60)
    """

    plan_name: ClassVar[str] = "tumbling"
    size: str | timedelta
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        _ = self._grid

    def _aggregate(self, rows: Grouping) -> DataFrame:
        grid = self._grid
        if isinstance(grid, FixedGrid):
            width, start = interval_text(grid.width), interval_text(grid.start)
            return rows.aggregate_by(F.window(rows.time_column, width, None, start))
        require_zone(rows.events, grid.zone)
        return rows.aggregate_by_span(grid.window(rows.time_column))

    def roll_up(
        self, panes: DataFrame, *, by: str | Sequence[str] = (), aggs: Mapping[str, Aggregate]
    ) -> DataFrame:
        """Merge the partials of smaller windows into these windows; see the function `roll_up`."""
        if self.zone is not None:
            require_zone(panes, self.zone)
        keys = require_column_names(by)
        _require_partials(panes, keys, aggs)
        window = F.col(WINDOW)
        with_larger = panes.withColumn(_LARGER, self._grid.window(window["start"]))
        rows = with_larger.withColumn(WINDOW, _larger_or_error(window, F.col(_LARGER)))
        return merge_partials(rows, [WINDOW, *keys], aggs)

    def late_at(self, time: Column) -> Column:
        """Return the end of the window that contains an instant."""
        return self._grid.window(time)["end"]

    @property
    def lookback(self) -> timedelta:
        """How far before the end of a window its events can be."""
        return timedelta(microseconds=self._grid.max_length)

    @property
    def _grid(self) -> FixedGrid | Calendar:
        if self.zone is not None:
            return calendar(self.size, self.zone, self.offset)
        width = fixed_micros(self.size, "size")
        return FixedGrid(width, alignment_micros(self.offset, width))


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

    Windows start at 1970-01-01 00:00:00 UTC plus `offset` plus multiples of `size`, regardless of
    the session time zone. Events with a null time are in no window; a null key is a separate key.

    With a `zone`, windows are periods of its calendar: `size` is a number of days, weeks, months,
    quarters or years, and windows start at local midnight, weeks on Monday and months on the 1st.
    Days have 23 or 25 hours when clocks change. A day whose midnight is skipped starts at its first
    instant; a day with two midnights starts at the first one; a skipped date has no window.
    Multiples of days, weeks or months count from 1970-01-01, from the Monday before it, or from
    January 1970, so that three months are a quarter. `offset` then is a local time: with "6 hours",
    days start at six in the morning. Zones are those of Java's time zone database.

    State on a stream: one partial for each key and open window. A row is late, and dropped, when
    the end of its window is at or before the watermark. In append mode a window is emitted once,
    when the watermark reaches its end. Changing size, offset, zone, by or aggs requires a new
    checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window, at least a microsecond; with a zone, a number of days, weeks,
            months, quarters or years.
        by: the key columns.
        aggs: the aggregate of each result column; also Spark aggregate columns.
        time: the event-time column, a timestamp; on a batch also a field, such as "window.start"
            of the result of `session`.
        offset: shifts the alignment; any sign.
        zone: the time zone of the calendar, such as "Europe/Berlin"; without it, "1 day" is 24
            hours in UTC.

    Returns:
        `window` (struct of inclusive start and exclusive end), the by columns, the aggregates.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: fixed windows of Akidau et al., The Dataflow Model (2015).

    >>> from tidegate.aggregates import avg, count
    >>> tumbling(clicks, "5 minutes", by="page", aggs={"views": count(), "ms": avg("ms")}).columns
    ['window', 'page', 'views', 'ms']
    >>> months = tumbling(clicks, "1 month", aggs={"views": count()}, zone="Europe/Berlin")
    >>> (month,) = months.collect()
    >>> (month.window.end - month.window.start).days
    31
    """
    return Tumbling(size, offset, zone).aggregate(events, by=by, aggs=aggs, time=time)


def roll_up(
    panes: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate],
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
) -> DataFrame:
    """Merge the partials of smaller windows into the partials of larger windows.

    `panes` is the result of a transform with `aggs=partials(aggs)`: a stored table, or a
    micro-batch inside a sink; not a stream. Windows are those of `tumbling` with the same size,
    offset and zone. Keys that are missing in `by` are merged: minutes by page become hours by page,
    or hours of all pages. Results can be merged again, also with late rows of windows that were
    rolled up before: roll-ups of parts merge to the roll-up of all rows. Has no state.

    Args:
        panes: `window`, key columns, and a column of partials for each of `aggs`.
        size: the length of the larger windows, as in `tumbling`.
        by: the key columns of the result.
        aggs: the aggregates of the partials.
        offset: shifts the alignment of the larger windows.
        zone: the time zone of the calendar.

    Returns:
        `window`, the by columns, the partials; `tidegate.aggregates.finish` computes the results.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. Execution fails for a window that
            overlaps two larger windows, such as an hour in a zone whose days start at half past.

    >>> from tidegate.aggregates import count, finish, partials
    >>> aggs = {"views": count()}
    >>> minutes = tumbling(clicks, "1 minute", by="page", aggs=partials(aggs))
    >>> finish(roll_up(minutes, "1 hour", aggs=aggs), aggs).columns
    ['window', 'views']
    """
    return Tumbling(size, offset, zone).roll_up(panes, by=by, aggs=aggs)


def _larger_or_error(window: Column, larger: Column) -> Column:
    """Return the larger window; fail the query for a window that extends beyond it."""
    message = F.concat(
        F.lit("cannot roll up the window from "),
        window["start"].cast("string"),
        F.lit(" to "),
        window["end"].cast("string"),
        F.lit("\n  cause: the larger window ends at "),
        larger["end"].cast("string"),
        F.lit(".\n  fix: roll up to a multiple of the smaller window size."),
    )
    fail = F.raise_error(message).cast(_WINDOW_TYPE)
    return F.when(window["end"] <= larger["end"], larger).otherwise(fail)


def _require_partials(panes: DataFrame, keys: Sequence[str], aggs: Mapping[str, Aggregate]) -> None:
    require_columns(panes, [WINDOW], "panes")
    require_columns(panes, keys)
    require_columns(panes, aggs, "aggs")
    if panes.isStreaming:
        raise ArgumentError(
            "invalid panes: a stream", "a table or a micro-batch", "call roll_up inside a sink"
        )
    if not aggs:
        raise ArgumentError("invalid aggs: {}", "at least one aggregate, by column of partials")
    for name, agg in aggs.items():
        if not isinstance(agg, Aggregate):
            raise ColumnTypeError(
                f"invalid aggs: {name!r} is a {type(agg).__name__}", "an Aggregate"
            )
    window_type = panes.schema[WINDOW].dataType.simpleString()
    if window_type != _WINDOW_TYPE:
        raise ColumnTypeError(
            f"invalid panes: column {WINDOW!r} has type {window_type}",
            "a struct of start and end, as windows return it",
        )
