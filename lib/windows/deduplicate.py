"""Exact deduplication within an interval of event time; the earliest event of a key stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import (
    add_micros,
    quoted_column,
    require_column_names,
    require_columns,
    require_event_time,
)
from ..durations import duration_text, interval_text, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._grouping import SPAN, FixedGrid, as_window, with_span

MAX_PANES = 100
_PANE = "tidegate:pane"
_KEY = "tidegate:key"
_NULL_KEY = "tidegate:alone"
_FIRST = "tidegate:first"
_LAST = "tidegate:last"
_PREVIOUS_LAST = "tidegate:before"
_LATER = "tidegate:later"


@dataclass(frozen=True)
class Deduplication:
    """Deduplication as the transform of a job; see the function `deduplicate`.

    Raises ArgumentError, ColumnError and ColumnTypeError at construction.

    >>> once = Deduplication("user", "10 seconds", max_delay="2 seconds")
    >>> once(clicks).count()
    2
    """

    plan_name: ClassVar[str] = "deduplication"
    key: str | Sequence[str]
    within: str | timedelta
    max_delay: str | timedelta
    order: str | Sequence[str] = ()
    time: str = "event_time"

    def __post_init__(self) -> None:
        require_column_names(self.order, "order")
        if not require_column_names(self.key, "key"):
            raise ArgumentError("invalid key: no columns", "one or more columns", 'key="event_id"')
        within = microseconds(self.within, "within")
        max_delay = microseconds(self.max_delay, "max_delay")
        if max_delay > within or self._pane_count > MAX_PANES:
            raise ArgumentError(
                f"invalid max_delay: {self.max_delay!r} with within={self.within!r}",
                f"at most `within`, and at least 1/{MAX_PANES} of it",
                f"max_delay='{duration_text(max(1, within // 4))}', a quarter of `within`",
            )

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the events that are not duplicates."""
        require_event_time(events, self.time)
        keys = require_column_names(self.key, "key")
        order_columns = require_column_names(self.order, "order")
        require_columns(events, keys, "key")
        require_columns(events, order_columns, "order")
        columns = _comparison_order(events, self.time, order_columns)
        panes = self._earliest_per_pane(events, keys, columns)
        return self._without_earlier(self._explode_later_panes(panes), events.columns)

    def late_at(self, time: Column) -> Column:
        """Return the end of the pane, of the length `max_delay`, that contains an instant."""
        return FixedGrid(microseconds(self.max_delay), 0).window(time)["end"]

    @property
    def lookback(self) -> timedelta:
        """How far before an event another event can make it a duplicate."""
        return timedelta(microseconds=microseconds(self.within))

    @property
    def result_time(self) -> Column:
        """The time of the event."""
        return quoted_column(self.time)

    @property
    def _pane_count(self) -> int:
        """The number of earlier panes within reach of an event."""
        return -(-microseconds(self.within) // microseconds(self.max_delay))

    def _earliest_per_pane(
        self, events: DataFrame, keys: list[str], column_order: list[str]
    ) -> DataFrame:
        """Return the first event and the last time of each key and pane."""
        event_time = quoted_column(self.time)
        event = F.struct(*map(quoted_column, column_order))
        # An event with a null key is a separate group, identified by all its columns.
        has_null_key = reduce(or_, [quoted_column(name).isNull() for name in keys])
        return events.groupBy(
            F.window(event_time, interval_text(microseconds(self.max_delay))).alias(_PANE),
            F.struct(*map(quoted_column, keys)).alias(_KEY),
            F.when(has_null_key, event).alias(_NULL_KEY),
        ).agg(F.min(event).alias(_FIRST), F.max(F.unix_micros(event_time)).alias(_LAST))

    def _explode_later_panes(self, panes: DataFrame) -> DataFrame:
        """Return the first event of each pane, and the last time of the panes before it."""
        pane_numbers = F.sequence(F.lit(0), F.lit(self._pane_count))
        copies = panes.select("*", F.explode(pane_numbers).alias(_LATER))
        shift = quoted_column(_LATER).cast("bigint") * F.lit(microseconds(self.max_delay))
        edges = [add_micros(quoted_column(_PANE)[edge], shift) for edge in ("start", "end")]
        is_own_pane = quoted_column(_LATER) == 0
        grouped = with_span(copies, _PANE, as_window(*edges)).groupBy(SPAN, _KEY, _NULL_KEY)
        return grouped.agg(
            F.any_value(F.when(is_own_pane, quoted_column(_FIRST)), F.lit(True)).alias(_FIRST),
            F.max(F.when(~is_own_pane, quoted_column(_LAST))).alias(_PREVIOUS_LAST),
        )

    def _without_earlier(self, panes: DataFrame, columns: list[str]) -> DataFrame:
        """Return the first events that are farther than `within` from the previous event."""
        distance = F.unix_micros(quoted_column(_FIRST)[self.time]) - quoted_column(_PREVIOUS_LAST)
        is_after_gap = distance > F.lit(microseconds(self.within))
        is_first = quoted_column(_PREVIOUS_LAST).isNull() | is_after_gap
        first = panes.where(quoted_column(_FIRST).isNotNull() & is_first)
        return first.select(*[quoted_column(_FIRST)[name].alias(name) for name in columns])


def deduplicate(
    events: DataFrame,
    key: str | Sequence[str],
    within: str | timedelta,
    *,
    max_delay: str | timedelta,
    order: str | Sequence[str] = (),
    time: str = "event_time",
) -> DataFrame:
    """Drop each event whose key occurred in another event at most `within` earlier.

    An event is a duplicate if another event of its key has a time in [t - within, t]; among events
    with the same time, the first by `order` stays. The interval counts from the previous event,
    duplicate or not: a key that repeats within `within` stays suppressed until it pauses for
    longer. The result for an event depends only on the events in the interval before it, not on the
    order of arrival, on batches, on `max_delay` or on the starting offsets. A key with a null
    equals no other key and is not a duplicate, except that of events equal in all columns one
    stays. Events with a null time are dropped.

    The earliest event of a key is known only once the watermark passes it. Events wait in panes of
    the length `max_delay`. An event is emitted once, when the watermark reaches the end of its
    pane; the output mode must be "append". The result has no watermark.

    State on a stream: the first and last event of each key in an open pane, and one time in each of
    the following within / max_delay panes while they are open. The state is bounded by `within`,
    not by the watermark delay. The cost grows with the number of panes. A row is late, and dropped,
    once its pane has closed; later events of its key ignore it too. Changing key, within, max_delay
    or order requires a new checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        key: the columns that identify equal events, of any type that Spark can group by.
        within: the interval in which events with the same key are duplicates.
        max_delay: how long an event can wait beyond the watermark; at most `within`, and at least
            a hundredth of it.
        order: columns that order events with the same time, such as "topic", "partition" and
            "offset"; then all other columns, in their order.
        time: the event-time column, a timestamp.

    Returns:
        The columns of `events`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes as in Li et al., No Pane, No Gain (2005).

    >>> once = deduplicate(clicks, "user", "10 seconds", max_delay="2 seconds")
    >>> once.select("user", F.second("event_time")).collect()
    [Row(user='u0', second(event_time)=0), Row(user='u1', second(event_time)=1)]
    """
    return Deduplication(key, within, max_delay, order, time)(events)


def _comparison_order(events: DataFrame, time: str, order_columns: list[str]) -> list[str]:
    """Return all columns, in the order in which events are compared.

    Raises ColumnTypeError for a column whose type has no order.
    """
    first = [time, *[name for name in order_columns if name != time]]
    columns = first + [name for name in events.columns if name not in first]
    try:
        events.agg(F.min(F.struct(*map(quoted_column, columns)))).schema  # noqa: B018
    except AnalysisException as fault:
        raise ColumnTypeError(
            "invalid events: a column has a type without an order",
            "all types except maps and variants",
            "convert the column with F.map_entries or F.to_json",
        ) from fault
    return columns
