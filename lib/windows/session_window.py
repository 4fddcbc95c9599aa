"""Session windows: from the first event of a key to a gap after the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DayTimeIntervalType

from ..aggregates import Aggregate
from ..columns import (
    WATERMARK_KEY,
    add_micros,
    column_type,
    is_byte_comparable,
    is_collated,
    quoted_column,
    require_column_names,
)
from ..durations import interval_text, microseconds
from ..errors import ColumnTypeError
from ._grouping import SPAN, WINDOW, FixedGrid, Grouping, as_window, explode_rows, floor_time
from .window import MergeSessions, Window

SLICES = 8
"""The number of slices of a gap; a stream stores rows until their slice ends."""

_DELAYED_TIME = "tidegate:at"
_GAP = "tidegate:length"


@dataclass(frozen=True)
class Session(Window):
    """Sequences of events of a key within `gap` of each other; see the function `session`.

    Raises ArgumentError and ColumnTypeError at construction.

    >>> Session("30 minutes", max_duration="1 day").lookback
    datetime.timedelta(days=1, seconds=1800)
    """

    plan_name: ClassVar[str] = "session"
    gap: str | timedelta | Column
    max_duration: str | timedelta | None = None

    def __post_init__(self) -> None:
        min_value = 1 if isinstance(self.gap, Column) else microseconds(self.gap, "gap")
        if self.max_duration is not None:
            microseconds(self.max_duration, "max_duration", min_value=min_value)

    def _aggregate(self, rows: Grouping) -> DataFrame:
        _require_uncollated_keys(rows)
        if isinstance(self.gap, Column):
            _require_interval(rows, self.gap)
        if rows.events.isStreaming:
            sessions = self._aggregate_closed_slices(rows)
        else:
            time = rows.time_column
            splits = self._duration_splits(time)
            leading_keys = _key_hash_columns(rows)
            sessions = rows.aggregate_by(self._window(time), *splits, leading_keys=leading_keys)
        # Before grouping, the window of an event is not the window of its session, so a filter that
        # is pushed down would remove events from sessions. Spark does not push filters through a
        # nondeterministic condition; this one is always true.
        return sessions.where(F.spark_partition_id() >= 0)

    def late_at(self, time: Column) -> Column:
        """Return the end of the slice, an eighth of the gap, that contains an instant.

        A session is emitted at most a slice after its end. Once the watermark reaches the end of
        the slice of a row, the session of the row can already be emitted. If the gap is a column, a
        slice is a microsecond.
        """
        return self._slices.window(time)["end"]

    def merge_rule(self, by: str | Sequence[str]) -> MergeSessions:
        """Return the rule that merges late rows into overlapping sessions."""
        return MergeSessions(require_column_names(by))

    @property
    def lookback(self) -> timedelta | None:
        """How far before the end of a session its events can be.

        None without `max_duration`, since the length of a session is unlimited.
        """
        if self.max_duration is None or isinstance(self.gap, Column):
            return None
        return timedelta(microseconds=microseconds(self.max_duration) + microseconds(self.gap))

    @property
    def _slices(self) -> FixedGrid:
        if isinstance(self.gap, Column):
            return FixedGrid(1, 0)
        return FixedGrid(max(1, microseconds(self.gap) // SLICES), 0)

    @property
    def row_expressions(self) -> Sequence[Column]:
        """The gap, if it is an expression over the columns of an event."""
        return (self.gap,) if isinstance(self.gap, Column) else ()

    def _window(self, time: Column) -> Column:
        if isinstance(self.gap, Column):
            return F.session_window(time, _positive_interval(self._gap_micros(time)))
        return F.session_window(time, interval_text(microseconds(self.gap)))

    def _duration_splits(self, time: Column) -> list[Column]:
        """Return the multiple of `max_duration` before an event, as an additional group column."""
        if self.max_duration is None:
            return []
        return [floor_time(time, microseconds(self.max_duration))]

    def _gap_micros(self, time: Column) -> Column:
        if isinstance(self.gap, Column):
            return F.unix_micros(time + self.gap) - F.unix_micros(time)
        return F.lit(microseconds(self.gap))

    def _aggregate_closed_slices(self, rows: Grouping) -> DataFrame:
        """Aggregate the sessions of a stream; a row takes part once its slice has closed."""
        with_gaps = rows.events.withColumn(_GAP, self._gap_micros(rows.time_column))
        window = self._slices.window(rows.time_column)
        slices = replace(rows, events=with_gaps).collect_rows(window, _GAP)
        events = explode_rows(slices.withColumnRenamed(WINDOW, SPAN))
        watermark_delay = (slices.schema[WINDOW].metadata or {}).get(WATERMARK_KEY)
        # Rows up to a slice older than the watermark can still arrive, so a session must stay in
        # state until the watermark is a slice beyond its end. Its rows are shifted by a slice.
        delayed_time = add_micros(rows.time_column, self._slices.width)
        delayed = events.withColumn(_DELAYED_TIME, delayed_time).withMetadata(
            _DELAYED_TIME, {WATERMARK_KEY: watermark_delay}
        )
        gap = _positive_interval(quoted_column(_GAP))
        window = F.session_window(quoted_column(_DELAYED_TIME), gap)
        sessions = replace(rows, events=delayed).aggregate_by(window, *self._stream_groups(rows))
        shifted = quoted_column(WINDOW)
        edges = [add_micros(shifted[edge], -self._slices.width) for edge in ("start", "end")]
        return sessions.withColumn(WINDOW, as_window(*edges))

    def _stream_groups(self, rows: Grouping) -> list[Column]:
        """Return the additional group columns; a constant if there would be none."""
        splits = self._duration_splits(rows.time_column)
        if rows.by or splits:
            return splits
        # Spark removes literals from group columns.
        return [F.pmod(F.unix_micros(rows.time_column), F.lit(1))]


def session(
    events: DataFrame,
    gap: str | timedelta | Column,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate | Column],
    time: str = "event_time",
    max_duration: str | timedelta | None = None,
) -> DataFrame:
    """Aggregate the events of each key in sessions: sequences of events within `gap` of each other.

    The window of a session is [first event, last event + gap). Two events exactly one gap apart are
    in one session. If the gap is a column, a session ends at the maximum of event time plus gap;
    a null, zero or negative gap counts as one microsecond, so that no event is lost. Events with a
    null time are in no session; a null key is a separate key.

    `max_duration` limits sessions, and thereby the state of a key that is always active: sessions
    are split at multiples of `max_duration` from 1970-01-01 00:00:00 UTC. "1 day" splits all
    sessions at midnight UTC. The window still ends a gap after the last event of the part.

    State on a stream: the rows of open slices, each an eighth of the gap, and one partial for each
    open session. A row is late, and dropped, when the end of its slice is at or before the
    watermark, so that no emitted session misses a row. A session is emitted once, when the
    watermark is a slice beyond its end; the output mode must be "append". The result has no
    watermark. Changing by or aggs, or adding or removing `max_duration`, requires a new checkpoint;
    changed durations apply to new events.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        gap: a duration, or a column of day-time intervals (`F.make_dt_interval`), one for each
            event.
        by: the key columns.
        aggs: the aggregate of each result column; also Spark aggregate columns.
        time: the event-time column, a timestamp.
        max_duration: the maximum time between events of one session, at least a fixed gap.

    Returns:
        `window` (struct of inclusive start and exclusive end), the by columns, the aggregates.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: sessions of Akidau et al., The Dataflow Model (2015).

    >>> from tidegate.aggregates import count
    >>> session(clicks, "30 minutes", by="user", aggs={"clicks": count()}).columns
    ['window', 'user', 'clicks']
    """
    return Session(gap, max_duration).aggregate(events, by=by, aggs=aggs, time=time)


def _require_uncollated_keys(rows: Grouping) -> None:
    """Raise ColumnTypeError for keys with a collation: Spark compares session keys by bytes."""
    for name in rows.by:
        data_type = rows.events.schema[name].dataType
        if is_collated(data_type):
            raise ColumnTypeError(
                f"invalid by: column {name!r} has type {data_type.simpleString()}",
                "session keys without a collation",
                f"withColumn({name!r}, F.collation_key({name!r})) before the transform",
            )


def _key_hash_columns(rows: Grouping) -> list[Column]:
    """Return a hash of the keys as the leading group column; nothing if no key can be hashed.

    Spark sorts session rows by their group columns and compares the first eight bytes of the first
    column before it compares complete rows, which is several times slower. Keys often share their
    first bytes, hashes do not.
    """
    schema = rows.events.schema
    hashable = [name for name in rows.by if is_byte_comparable(schema[name].dataType)]
    return [F.hash(*map(quoted_column, hashable))] if hashable else []


def _require_interval(rows: Grouping, gap: Column) -> None:
    data_type = column_type(rows.events, gap, "gap")
    if not isinstance(data_type, DayTimeIntervalType):
        raise ColumnTypeError(
            f"invalid gap: a column of type {data_type.simpleString()}",
            "a duration such as '30 minutes', or a column of day-time intervals",
            "F.make_dt_interval(secs=F.col('gap_seconds'))",
        )


def _positive_interval(micros: Column) -> Column:
    """Return an interval of at least a microsecond, as Spark's session windows require."""
    seconds = F.greatest(micros, F.lit(1)).cast("decimal(18, 0)") * F.lit(Decimal("0.000001"))
    return F.make_interval(secs=seconds.cast("decimal(18, 6)"))
