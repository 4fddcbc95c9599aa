"""What a window defines: its results, which rows are late, and how late rows merge into results.

`WindowAggregation` is a window with its aggregates as the transform of a job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as RowWindow
from pyspark.sql import functions as F

from ..aggregates import Aggregate, Overflows, find_overflows, partials
from ..columns import (
    quoted_column,
    require_column_names,
    require_instance,
    same_key,
)
from ..errors import ArgumentError, ColumnTypeError
from ._grouping import WINDOW, Grouping, as_window, build_grouping, require_aggregates

_PREVIOUS_END = "__tidegate_ended"
_ISLAND = "__tidegate_island"
_STORED = "s"
_INCOMING = "a"


class Window(ABC):
    """A window definition: Tumbling, Hopping, Sliding, Session or Cumulative.

    >>> from tidegate.windows import Tumbling
    >>> isinstance(Tumbling("1 minute"), Window)
    True
    """

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate | Column],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the window, the by columns and the aggregates of each window and key."""
        return self._aggregate(build_grouping(events, by, aggs, time))

    @abstractmethod
    def _aggregate(self, rows: Grouping) -> DataFrame:
        """Return the result of `aggregate` for validated arguments."""

    @abstractmethod
    def late_at(self, time: Column) -> Column:
        """Return the watermark at which a row with this event time becomes late.

        From then on, a window that the row would change can already be emitted.
        """

    @property
    @abstractmethod
    def lookback(self) -> timedelta | None:
        """How far before the time of a result its events can be; None if unknown."""

    def merge_rule(self, by: str | Sequence[str]) -> MergeEqualWindows | MergeSessions | None:
        """Return how late rows merge into emitted windows; None if they cannot merge."""
        return MergeEqualWindows(require_column_names(by))

    @property
    def row_expressions(self) -> Sequence[Column]:
        """The expressions that the window evaluates for each event; by default none."""
        return ()

    @property
    def result_time(self) -> Column:
        """The end of the window; the result is final once all earlier events are read."""
        return quoted_column(WINDOW)["end"]


@dataclass(frozen=True)
class MergeEqualWindows:
    """Merges results of the same window and key: for tumbling, hopping and cumulative windows.

    >>> from tidegate.windows import Tumbling
    >>> Tumbling("1 minute").merge_rule("page")
    MergeEqualWindows(by=['page'])
    """

    by: Sequence[str] = ()

    def overlapping_windows(
        self, stored: DataFrame, incoming: DataFrame, extra_condition: Column
    ) -> DataFrame:
        """Return the stored windows that equal an incoming one or satisfy `extra_condition`."""
        same_window = _window_of(_STORED).eqNullSafe(_window_of(_INCOMING))
        conditions = [*_same_keys(self.by), same_window]
        return _select_stored(stored, incoming, conditions, extra_condition)

    def with_merged_window(self, rows: DataFrame, result_column: str) -> DataFrame:
        """Add the merged window of each row, which is its own window."""
        return rows.withColumn(result_column, quoted_column(WINDOW))


@dataclass(frozen=True)
class MergeSessions:
    """Merges the sessions of a key that overlap or are adjacent.

    Ignores `max_duration`: a session that was split there would grow beyond it.

    >>> from tidegate.windows import Session
    >>> Session("30 minutes").merge_rule("user")
    MergeSessions(by=['user'])
    """

    by: Sequence[str] = ()

    def overlapping_windows(
        self, stored: DataFrame, incoming: DataFrame, extra_condition: Column
    ) -> DataFrame:
        """Return the stored sessions that overlap an incoming one or satisfy `extra_condition`.

        Stored sessions of a key do not overlap each other, and neither do incoming sessions.
        """
        old, new = _window_of(_STORED), _window_of(_INCOMING)
        touching = [old["start"] <= new["end"], new["start"] <= old["end"]]
        return _select_stored(stored, incoming, [*_same_keys(self.by), *touching], extra_condition)

    def with_merged_window(self, rows: DataFrame, result_column: str) -> DataFrame:
        """Add the merged session of each row.

        Gaps and islands: in the order of starts, a session that starts after the end of all
        previous sessions starts an island, and the sessions of an island merge.
        """
        start = quoted_column(WINDOW)["start"]
        end = quoted_column(WINDOW)["end"]
        keys = [quoted_column(name) for name in self.by] or [F.lit(0)]
        order = RowWindow.partitionBy(*keys).orderBy(start)
        previous_end = F.max(end).over(order.rowsBetween(RowWindow.unboundedPreceding, -1))
        with_previous_end = rows.withColumn(_PREVIOUS_END, previous_end)
        # 1 at the start of an island, else 0: the running sum numbers the islands.
        starts_island = F.coalesce((start > quoted_column(_PREVIOUS_END)).cast("int"), F.lit(1))
        with_starts = with_previous_end.withColumn(_ISLAND, starts_island)
        numbered = with_starts.withColumn(_ISLAND, F.sum(_ISLAND).over(order))
        island = RowWindow.partitionBy(*keys, _ISLAND)
        merged = as_window(F.min(start).over(island), F.max(end).over(island))
        return numbered.withColumn(result_column, merged).drop(_PREVIOUS_END, _ISLAND)


@dataclass(frozen=True)
class WindowAggregation:
    """Aggregates of the events of each window and key, as the transform of a job.

    The window defines which rows are late and when a result is final.

    Args:
        window: Tumbling, Hopping, Sliding, Session or Cumulative.
        by: the key columns.
        aggs: the aggregate of each result column; except in sliding windows, also Spark aggregate
            columns.
        time: the event-time column, a timestamp.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and when called with events
            that lack a column.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling
    >>> views = WindowAggregation(Tumbling("1 minute"), by="page", aggs={"views": count()})
    >>> views(clicks).columns
    ['window', 'page', 'views']
    """

    plan_name: ClassVar[str] = "window_aggregation"
    window: Window
    by: str | Sequence[str] = ()
    aggs: Mapping[str, Aggregate | Column] = field(default_factory=dict)
    time: str = "event_time"

    def __post_init__(self) -> None:
        if not isinstance(self.window, Window):
            raise ColumnTypeError(
                f"invalid window: {self.window!r} ({type(self.window).__name__})",
                "Tumbling, Hopping, Sliding, Session or Cumulative",
                'WindowAggregation(Tumbling("1 minute"), ...)',
            )
        require_aggregates(self.aggs)
        object.__setattr__(self, "by", tuple(require_column_names(self.by)))
        require_instance(self.time, "time", str, 'time="event_time"')

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the window, the by columns and the aggregates of each window and key."""
        return self.window.aggregate(events, by=self.by, aggs=self.aggs, time=self.time)

    def with_overflows(self, events: DataFrame) -> DataFrame:
        """Return the result rows with the column OVERFLOW, if a result can overflow its type."""
        grouping = build_grouping(events, self.by, self.aggs, self.time)
        return self.window._aggregate(replace(grouping, names_overflows=True))

    def find_overflows(self, rows: DataFrame) -> Overflows:
        """Return the rows of `with_overflows` with a result that does not fit its type."""
        return find_overflows(rows, [WINDOW, *self.by])

    @property
    def row_expressions(self) -> list[Column]:
        """The expressions that the aggregates and the window evaluate for each event."""
        aggregates = [agg for agg in self.aggs.values() if isinstance(agg, Aggregate)]
        values = [value for agg in aggregates for value, _ in agg.inputs]
        return [
            *[each for each in values if isinstance(each, Column)],
            *self.window.row_expressions,
        ]

    def partials(self) -> WindowAggregation:
        """Return the same transform without `finish` of its aggregates, so that results merge.

        Raises ArgumentError for Spark aggregate columns and for sliding windows.
        """
        return replace(self, aggs=partials(self.mergeable_aggregates))

    @property
    def mergeable_aggregates(self) -> dict[str, Aggregate]:
        """The aggregates; raises ArgumentError if one of them does not merge."""
        mergeable = {name: agg for name, agg in self.aggs.items() if isinstance(agg, Aggregate)}
        expressions = sorted(self.aggs.keys() - mergeable.keys())
        if expressions or self.merge_rule is None:
            subject = f"window: {type(self.window).__name__}"
            if expressions:
                subject = f"aggs: {', '.join(expressions)}"
            raise ArgumentError(
                f"invalid {subject} cannot merge late rows",
                "aggregates of tidegate such as count(), in windows other than sliding windows",
            )
        return mergeable

    @property
    def merge_rule(self) -> MergeEqualWindows | MergeSessions | None:
        """How late rows merge into emitted windows; None if they cannot merge."""
        return self.window.merge_rule(self.by)

    def late_at(self, time: Column) -> Column:
        """Return the watermark at which a row with this event time becomes late."""
        return self.window.late_at(time)

    @property
    def lookback(self) -> timedelta | None:
        """How far before the time of a result its events can be; None if unknown."""
        return self.window.lookback

    @property
    def result_time(self) -> Column:
        """The event time of a result row."""
        return self.window.result_time


def _window_of(alias: str) -> Column:
    return F.col(f"{alias}.{WINDOW}")


def _same_keys(by: Sequence[str]) -> list[Column]:
    return [same_key(by, _STORED, _INCOMING)] if by else []


def _select_stored(
    stored: DataFrame, incoming: DataFrame, conditions: list[Column], extra_condition: Column
) -> DataFrame:
    """Return stored rows that match an incoming row or satisfy `extra_condition`, in one scan."""
    matching = incoming.alias(_INCOMING).where(reduce(and_, conditions).outer())
    return stored.alias(_STORED).where(extra_condition | matching.exists())
