"""Session windows: of no fixed length, from a key's first event to a gap after its last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DayTimeIntervalType

from ..aggregates import Aggregate
from ..columns import WATERMARK_KEY, is_collated, is_plain, names, quoted, type_of
from ..durations import interval, microseconds
from ..errors import ColumnTypeError
from ._grid import Grid, floor
from ._grouping import SPAN, Grouping, grouping, restored
from .merging import WINDOW, Overlapping
from .window import result_time

SLICES = 8
"""How many slices a gap has: rows of a stream wait for the end of their slice."""

_AT = "tidegate:at"
_LENGTH = "tidegate:length"


@dataclass(frozen=True)
class Session:
    """Runs of a key's events that follow one another within `gap`.

    The function `session` says where sessions begin and end.

    Args:
        gap: a duration, or a column of day-time intervals (`F.make_dt_interval`), one for each
            event.
        longest: the longest stretch of events in one session, at least the gap where that is fixed.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    gap: str | timedelta | Column
    longest: str | timedelta | None = None

    def __post_init__(self) -> None:
        least = 1 if isinstance(self.gap, Column) else microseconds(self.gap, "gap")
        if self.longest is not None:
            microseconds(self.longest, "longest", least=least)

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate | Column],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the aggregates of each session: window, the by columns, the aggregates."""
        rows = grouping(events, by, aggs, time)
        _require_bytes(rows)
        if isinstance(self.gap, Column):
            _require_interval(rows, self.gap)
        if events.isStreaming:
            return _whole(self._of_closed_slices(rows))
        window = self._window(rows.at)
        return _whole(rows.over(window, *self._cuts(rows.at), first=_told_apart(rows)))

    def late_at(self, time: Column) -> Column:
        """Return the end of the slice that holds an instant, an eighth of the gap long.

        A session comes out when no row of it can come any more that is not late, at most a slice
        after its end. So once the watermark has reached the end of a row's slice, a session that
        the row belongs to may be out. With a gap of each event a slice is a microsecond.
        """
        return self._slices.window(time)["end"]

    def merging(self, by: str | Sequence[str]) -> Overlapping:
        """Return how late rows are merged into sessions: with those that they overlap."""
        return Overlapping(names(by))

    @property
    def reach(self) -> timedelta | None:
        """How far before an instant an event can be that still matters to a later session.

        None without `longest`: a session that never rests has no beginning.
        """
        if self.longest is None or isinstance(self.gap, Column):
            return None
        return timedelta(microseconds=microseconds(self.longest) + microseconds(self.gap))

    @property
    def result_time(self) -> Column:
        """A session's end."""
        return result_time()

    @property
    def _slices(self) -> Grid:
        if isinstance(self.gap, Column):
            return Grid(1, 0)
        return Grid(max(1, microseconds(self.gap) // SLICES), 0)

    def _window(self, at: Column) -> Column:
        if isinstance(self.gap, Column):
            return F.session_window(at, _positive(self._length(at)))
        return F.session_window(at, interval(microseconds(self.gap)))

    def _cuts(self, at: Column) -> list[Column]:
        """Return what parts events beside the key: the stretch of `longest` that they are in."""
        return [] if self.longest is None else [floor(at, microseconds(self.longest))]

    def _length(self, at: Column) -> Column:
        """Return an event's gap in microseconds."""
        if isinstance(self.gap, Column):
            return F.unix_micros(at + self.gap) - F.unix_micros(at)
        return F.lit(microseconds(self.gap))

    def _of_closed_slices(self, rows: Grouping) -> DataFrame:
        """Aggregate the sessions of a stream, each row once its slice has closed."""
        micros = F.unix_micros(rows.at)
        measured = replace(rows, events=rows.events.withColumn(_LENGTH, self._length(rows.at)))
        slices = measured.collected(self._slices.window(rows.at), _LENGTH)
        events = restored(slices.withColumnRenamed(WINDOW, SPAN))
        mark = (slices.schema[WINDOW].metadata or {}).get(WATERMARK_KEY)
        # Rows may still come that are a slice older than the watermark, and one that is exactly a
        # gap after a session's last event is of it. So a session has to stay until the watermark is
        # a slice beyond its end: its rows are taken for a slice later than they are.
        later = F.timestamp_micros(micros + F.lit(self._slices.width))
        delayed = events.withColumn(_AT, later).withMetadata(_AT, {WATERMARK_KEY: mark})
        window = F.session_window(quoted(_AT), _positive(quoted(_LENGTH)))
        sessions = replace(rows, events=delayed).over(window, *self._parts_of_a_stream(rows))
        return self._restored(sessions)

    def _restored(self, sessions: DataFrame) -> DataFrame:
        """Put the windows back to where their events are."""
        window = quoted(WINDOW)
        edges = [
            F.timestamp_micros(F.unix_micros(window[edge]) - F.lit(self._slices.width)).alias(edge)
            for edge in ("start", "end")
        ]
        return sessions.withColumn(WINDOW, F.struct(*edges))

    def _parts_of_a_stream(self, rows: Grouping) -> list[Column]:
        """Return the cuts; without a key and a cut a constant, which Spark's streams ask for."""
        cuts = self._cuts(rows.at)
        if rows.by or cuts:
            return cuts
        # Spark would take a literal out of the grouping.
        return [F.pmod(F.unix_micros(rows.at), F.lit(1))]


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

    State on a stream: the rows of open slices, each an eighth of the gap long, and one partial for
    each open session. A row is late, and is left out, when the end of its slice is at or before the
    watermark: so no row is taken whose session is out. In append mode a session comes out once,
    when the watermark is a slice beyond its end. The result has no watermark of its own. A
    checkpoint is bound to by, aggs and whether `longest` is given; durations may change, and hold
    for events from then on.

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
    return Session(gap, longest).aggregate(events, by=by, aggs=aggs, time=time)


def _whole(sessions: DataFrame) -> DataFrame:
    """Keep a caller's filter of sessions from the events that they are made of.

    Spark moves a filter on what rows are grouped by below the grouping. An event's own window is
    not yet its session's: the filter would take events out of sessions that pass it. It moves none
    through a condition that is not deterministic, such as one on the number of a partition, which
    is never negative.
    """
    return sessions.where(F.spark_partition_id() >= 0)


def _require_bytes(rows: Grouping) -> None:
    """Refuse keys with a collation: Spark holds two keys for one session's if their bytes agree."""
    for name in rows.by:
        found = rows.events.schema[name].dataType
        if is_collated(found):
            raise ColumnTypeError(
                f"by names {name!r}, of type {found.simpleString()}.",
                "keys of sessions without a collation.",
                f"withColumn({name!r}, F.collation_key({name!r})) before the transform.",
            )


def _told_apart(rows: Grouping) -> list[Column]:
    """Return a number by which rows of two keys mostly differ; nothing where keys have none.

    Spark sorts the rows of sessions by what they are grouped by. It looks at the first eight bytes
    of the first column, and only where these are equal at the rows themselves, which takes several
    times as long. The first bytes of two keys are often equal, as in texts with one prefix.
    """
    types = {name: rows.events.schema[name].dataType for name in rows.by}
    plain = [quoted(name) for name, found in types.items() if is_plain(found)]
    return [F.hash(*plain)] if plain else []


def _require_interval(rows: Grouping, gap: Column) -> None:
    found = type_of(rows.events, gap, "gap")
    if not isinstance(found, DayTimeIntervalType):
        raise ColumnTypeError(
            f"gap is a column of type {found.simpleString()}.",
            "a duration such as '30 minutes', or a column of day-time intervals.",
            "F.make_dt_interval(secs=F.col('gap_seconds'))",
        )


def _positive(micros: Column) -> Column:
    """Return an interval of a microsecond or more, as Spark's session windows take one."""
    seconds = F.greatest(micros, F.lit(1)).cast("decimal(18, 0)") * F.lit(Decimal("0.000001"))
    return F.make_interval(secs=seconds.cast("decimal(18, 6)"))
