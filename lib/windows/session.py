"""Session windows: of no fixed length, from a key's first event to a gap after its last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DayTimeIntervalType

from ..aggregates import Aggregate
from ..columns import interval, microseconds, type_of
from ..errors import ColumnTypeError
from ._grid import floor
from ._grouping import Grouping, grouping


def session(
    events: DataFrame,
    gap: str | timedelta | Column,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate | Column],
    time: str = "event_time",
    longest: str | timedelta | None = None,
) -> DataFrame:
    """Aggregate each key's events in sessions: runs of events that follow one another within `gap`.

    A session's window is [first event, last event + gap). Two events exactly one gap apart are in
    one session. With a gap of each event, a session lasts as long as the farthest reach of any of
    its events; a gap that is null, zero or negative counts as one microsecond, so that no event is
    lost. Events with a null time are in no session; a null key is a key of its own.

    `longest` bounds a session and with it the state that a key which never rests can hold: no
    session holds events on both sides of a multiple of `longest` counted from 1970-01-01 00:00:00
    UTC, as if each such stretch had keys of its own. ("1 day" ends all sessions at midnight UTC.)
    Its window still ends a gap after its last event.

    State on a stream: one partial for each open session. A row is late, and is left out, when its
    time plus gap is at or before the watermark. In append mode a session comes out once, when the
    watermark reaches its end. A checkpoint is bound to by, aggs and whether `longest` is given;
    durations may change, and hold for events from then on.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        gap: a duration, or a column of day-time intervals (`F.make_dt_interval`), one for each
            event.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too.
        time: the event-time column, a timestamp.
        longest: the longest stretch of events in one session, at least the gap where that is fixed.

    Returns:
        `window` (struct of start inclusive and end exclusive), the by columns, one column an
        aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: sessions of Akidau et al., The Dataflow Model (2015).

    >>> from tidegate.aggregates import count
    >>> session(clicks, "30 minutes", by="user", aggs={"clicks": count()}).columns
    ['window', 'user', 'clicks']
    """
    rows = grouping(events, by, aggs, time)
    if isinstance(gap, Column):
        window, least = F.session_window(rows.at, _gaps(rows, gap)), 1
    else:
        least = microseconds(gap, "gap")
        window = F.session_window(rows.at, interval(least))
    if longest is None:
        return rows.over(window)
    return rows.over(window, floor(rows.at, microseconds(longest, "longest", least=least)))


def _gaps(rows: Grouping, gap: Column) -> Column:
    found = type_of(rows.events, gap, "gap")
    if not isinstance(found, DayTimeIntervalType):
        raise ColumnTypeError(
            f"gap is a column of type {found.simpleString()}.",
            "a duration such as '30 minutes', or a column of day-time intervals.",
            "F.make_dt_interval(secs=F.col('gap_seconds'))",
        )
    micros = F.unix_micros(rows.at + gap) - F.unix_micros(rows.at)
    seconds = F.greatest(micros, F.lit(1)).cast("decimal(18, 0)") * F.lit(Decimal("0.000001"))
    return F.make_interval(secs=seconds.cast("decimal(18, 6)"))
