"""Hopping windows: overlapping windows of a fixed length."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import add_micros
from ..durations import microseconds
from ..errors import ArgumentError
from ._grouping import (
    Grouping,
    aggregate_by_panes,
    alignment_micros,
    as_window,
    floor_time,
    require_window_limit,
)
from .window import Window


@dataclass(frozen=True)
class Hopping(Window):
    """Overlapping windows [start, start + size), one every `hop`; see the function `hopping`.

    Raises ArgumentError and ColumnTypeError at construction, also for more than 20,000 windows per
    event; warns if the hop does not divide the size.

    >>> Hopping("1 minute", "10 seconds").lookback
    datetime.timedelta(seconds=60)
    """

    plan_name: ClassVar[str] = "hopping"
    size: str | timedelta
    hop: str | timedelta
    offset: str | timedelta = "0 seconds"

    def __post_init__(self) -> None:
        size = microseconds(self.size, "size")
        hop = microseconds(self.hop, "hop")
        microseconds(self.offset, "offset", min_value=-(10**18))
        if hop > size:
            raise ArgumentError(
                f"invalid hop: {self.hop!r} exceeds size={self.size!r}; events in the gaps between "
                "windows would be lost",
                "a hop of at most the size",
                f"hop={self.size!r}, which equals tumbling(events, {self.size!r})",
            )
        windows_per_event = require_window_limit(size, hop, "hop", self.hop)
        if size % hop:
            warnings.warn(
                f"hop={self.hop!r} does not divide size={self.size!r}: each event is in "
                f"{windows_per_event - 1:,} or {windows_per_event:,} windows, and each hop costs "
                "two panes",
                stacklevel=3,
            )

    def _aggregate(self, rows: Grouping) -> DataFrame:
        return aggregate_by_panes(rows, self._layout)

    def late_at(self, time: Column) -> Column:
        """Return the end of the first window that contains an instant.

        A row that arrives after this watermark is dropped from all its windows.
        """
        return self._layout.pane(time)["end"]

    @property
    def lookback(self) -> timedelta:
        """How far before the end of a window its events can be."""
        return timedelta(microseconds=microseconds(self.size))

    @property
    def _layout(self) -> _HopPanes:
        hop = microseconds(self.hop)
        return _HopPanes(microseconds(self.size), hop, alignment_micros(self.offset, hop))


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
    size / hop windows, rounded up or down. Events with a null time are in no window; a null key is
    a separate key.

    Each event is aggregated once, in a pane, and the panes of a window are merged. Window starts
    and ends delimit panes: one pane per hop, or two if the size is not a multiple of the hop. For
    aggregates that do not merge (Spark aggregate columns) a stream stores the rows until their pane
    closes.

    State on a stream: one partial for each key and pane whose first window is open, and one for
    each open window with a closed pane. A row is late, and dropped from all its windows, when the
    end of its first window is at or before the watermark. A window is emitted once, when the
    watermark reaches its end; the output mode must be "append". Changing size, hop, offset, by or
    aggs requires a new checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window.
        hop: the distance between window starts, at most `size`.
        by: the key columns.
        aggs: the aggregate of each result column; also Spark aggregate columns.
        time: the event-time column, a timestamp.
        offset: shifts the alignment; any sign.

    Returns:
        `window` (struct of inclusive start and exclusive end), the by columns, the aggregates.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes as in Li et al., No Pane, No Gain (2005); two panes per hop as the paired windows
    of Krishnamurthy et al., On-the-Fly Sharing for Streamed Aggregation (2006).

    >>> from tidegate.aggregates import count
    >>> hopping(clicks, "1 minute", "10 seconds", by="page", aggs={"views": count()}).columns
    ['window', 'page', 'views']
    """
    return Hopping(size, hop, offset).aggregate(events, by=by, aggs=aggs, time=time)


@dataclass(frozen=True)
class _HopPanes:
    """The panes of hopping windows; `size`, `hop` and `start` are in microseconds.

    One window starts every `hop`, aligned to `start` microseconds after 1970-01-01.
    """

    size: int
    hop: int
    start: int

    def with_pane_inputs(self, frame: DataFrame, instant: Column) -> DataFrame:
        """Return the frame unchanged: panes depend on the instant only."""
        return frame

    def pane(self, instant: Column) -> Column:
        hop_start = floor_time(instant, self.hop, self.start)
        remainder = self.size % self.hop
        if remainder == 0:
            return as_window(hop_start, add_micros(hop_start, self.hop))
        first_end = add_micros(hop_start, remainder)
        is_before = instant < first_end
        # After the window end within this hop, the next window ends in the following hop.
        return as_window(
            F.when(is_before, hop_start).otherwise(first_end),
            F.when(is_before, first_end).otherwise(add_micros(first_end, self.hop)),
        )

    def windows(self, instant: Column) -> Column:
        """Return the windows that contain an instant, latest start first."""
        last_start = F.unix_micros(floor_time(instant, self.hop, self.start))
        remaining = F.lit(self.size - 1) - (F.unix_micros(instant) - last_start)
        hops_back = F.sequence(F.lit(0), F.call_function("div", remaining, F.lit(self.hop)))

        def window(hops: Column) -> Column:
            start = F.timestamp_micros(last_start - hops * F.lit(self.hop))
            return as_window(start, add_micros(start, self.size))

        return F.transform(hops_back, window)
