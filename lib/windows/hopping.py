"""Hopping windows: of fixed length, one starting at each hop, so that they overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import names
from ..durations import microseconds
from ..errors import ArgumentError
from ._grid import floor, shift
from ._grouping import grouping
from ._panes import by_panes
from .merging import Same
from .window import result_time


@dataclass(frozen=True)
class Hopping:
    """Windows [start, start + size), one starting every `hop`, so that they overlap.

    Windows start at 1970-01-01 00:00:00 UTC plus `offset` plus multiples of `hop`. An event is in
    size / hop windows (rounded down or up where that is no whole number).

    Events are aggregated once, in panes, and the panes of a window are merged. Panes lie between
    the instants at which a window begins or ends: one a hop, or two where the size is no multiple
    of the hop. Aggregates that do not merge (bare Spark aggregate columns) take the rows
    themselves, which a stream keeps until their pane has closed.

    Args:
        size: the length of a window.
        hop: from one window's start to the next; at most `size`, or events between windows would be
            lost.
        offset: shifts the alignment; any sign.

    Raises:
        ArgumentError, ColumnTypeError: at construction.

    Source: panes as in Li et al., No Pane, No Gain (2005); two panes a hop as the paired windows of
    Krishnamurthy et al., On-the-Fly Sharing for Streamed Aggregation (2006).
    """

    size: str | timedelta
    hop: str | timedelta
    offset: str | timedelta = "0 seconds"

    def __post_init__(self) -> None:
        size = microseconds(self.size, "size")
        hop = microseconds(self.hop, "hop")
        microseconds(self.offset, "offset", least=-(10**18))
        if hop > size:
            raise ArgumentError(
                f"hop is {self.hop!r}, longer than size={self.size!r}: events in the gaps between "
                "windows would be lost.",
                "a hop of at most the size.",
                f"hop={self.size!r}, which is tumbling(events, {self.size!r}).",
            )

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate | Column],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the aggregates of each window and key: window, the by columns, the aggregates."""
        return by_panes(grouping(events, by, aggs, time), self._layout)

    def late_at(self, time: Column) -> Column:
        """Return the end of the first window that holds an instant.

        Once the watermark has reached it, that window may be out, and the row is left out of all
        its windows.
        """
        return self._layout.pane(time)["end"]

    def merging(self, by: str | Sequence[str]) -> Same:
        """Return how late rows are merged into windows: into those that are the same."""
        return Same(names(by))

    @property
    def reach(self) -> timedelta:
        """How far before a window's end an event can be that still matters to the window."""
        return timedelta(microseconds=microseconds(self.size))

    @property
    def result_time(self) -> Column:
        """A window's end."""
        return result_time()

    @property
    def _layout(self) -> _Hops:
        hop = microseconds(self.hop)
        return _Hops(microseconds(self.size), hop, shift(self.offset, hop))


@dataclass(frozen=True)
class _Hops:
    """Where hopping windows begin and end; `size`, `hop` and `start` are in microseconds.

    One window starts every `hop`, counted from `start` after 1970 began.
    """

    size: int
    hop: int
    start: int

    @property
    def rest(self) -> int:
        """How long after a window's start another one ends, less whole hops."""
        return self.size % self.hop

    def placed(self, frame: DataFrame, at: Column) -> DataFrame:
        """Return the frame as it is: panes follow from the instant alone."""
        return frame

    def pane(self, at: Column) -> Column:
        """Return the pane that holds an instant: its start, and the end of its first window."""
        begun = floor(at, self.hop, self.start)
        if self.rest == 0:
            return F.struct(begun.alias("start"), _after(begun, self.hop).alias("end"))
        ends = _after(begun, self.rest)
        # Past the end in the middle of a hop, the next window to end does so in the hop that
        # follows.
        return F.struct(
            F.when(at < ends, begun).otherwise(ends).alias("start"),
            F.when(at < ends, ends).otherwise(_after(ends, self.hop)).alias("end"),
        )

    def windows(self, at: Column) -> Column:
        """Return the windows that hold an instant, the last to begin first."""
        latest = F.unix_micros(floor(at, self.hop, self.start))
        lasts = F.lit(self.size - 1) - (F.unix_micros(at) - latest)
        before = F.sequence(F.lit(0), F.call_function("div", lasts, F.lit(self.hop)))
        return F.transform(before, lambda hops: self._window(latest - hops * F.lit(self.hop)))

    def _window(self, start: Column) -> Column:
        end = start + F.lit(self.size)
        return F.struct(
            F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end")
        )


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

    See `Hopping` for where windows lie. Events with a null time are in no window; a null key is a
    key of its own.

    State on a stream: one partial for each key and pane whose first window is open, and one for
    each open window that holds a closed pane. A row is late, and is left out of all its windows,
    when the end of the first of them is at or before the watermark. In append mode a window comes
    out once, when the watermark reaches its end. A checkpoint is bound to size, hop, offset, by and
    aggs.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window.
        hop: from one window's start to the next; at most `size`.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too.
        time: the event-time column, a timestamp.
        offset: shifts the alignment; any sign.

    Returns:
        `window` (struct of start inclusive and end exclusive), the by columns, one column an
        aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    >>> from tidegate.aggregates import count
    >>> hopping(clicks, "1 minute", "10 seconds", by="page", aggs={"views": count()}).columns
    ['window', 'page', 'views']
    """
    return Hopping(size, hop, offset).aggregate(events, by=by, aggs=aggs, time=time)


def _after(time: Column, micros: int) -> Column:
    return F.timestamp_micros(F.unix_micros(time) + F.lit(micros))
