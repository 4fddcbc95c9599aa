"""Windows of events by key: what a job is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, partials
from ..columns import names
from ..conditions import condition, require_text
from ..errors import ArgumentError, ColumnTypeError
from .merging import Overlapping, Same
from .window import Window


@dataclass(frozen=True)
class Windowed:
    """A window, the keys and the aggregates: the transform of a job.

    What is late, and when a result is there, follows from the window.

    Args:
        window: Tumbling, Hopping, Sliding, Session or Cumulative.
        by: key columns.
        aggs: the aggregate of each result column; bare Spark aggregate columns are taken too, but
            not in sliding windows.
        time: the event-time column, a timestamp.
        where: a condition on the events' columns, in Spark's SQL: events of which it is false or
            null are in no window, and never late.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction; and by the call, for events
            that do not fit.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling
    >>> views = Windowed(Tumbling("1 minute"), by="page", aggs={"views": count()})
    >>> views(clicks).columns
    ['window', 'page', 'views']
    """

    window: Window
    by: str | Sequence[str] = ()
    aggs: Mapping[str, Aggregate | Column] = field(default_factory=dict)
    time: str = "event_time"
    where: str | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.window, "aggregate"):
            raise ColumnTypeError(
                f"window is {self.window!r}, a {type(self.window).__name__}.",
                "Tumbling, Hopping, Sliding, Session or Cumulative.",
                'Windowed(Tumbling("1 minute"), ...)',
            )
        if not isinstance(self.aggs, Mapping) or not self.aggs:
            raise ArgumentError(
                f"aggs is {self.aggs!r}.",
                "at least one aggregate by the name of its column.",
                "aggs={'n': count()}",
            )
        object.__setattr__(self, "by", tuple(names(self.by)))
        require_text(self.where)

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the aggregates of each window and key: window, the by columns, the aggregates."""
        aggs: Any = self.aggs
        kept = events if self.where is None else events.where(condition(events, self.where))
        return self.window.aggregate(kept, by=self.by, aggs=aggs, time=self.time)

    def partials(self) -> Windowed:
        """Return the same with its aggregates left unfinished, so that results can be merged.

        Raises ArgumentError where they cannot: for a bare Spark aggregate, and for sliding windows.
        """
        return replace(self, aggs=partials(self.mergeable))

    @property
    def mergeable(self) -> dict[str, Aggregate]:
        """The aggregates, all of which merge."""
        found = {name: agg for name, agg in self.aggs.items() if isinstance(agg, Aggregate)}
        bare = sorted(self.aggs.keys() - found.keys())
        if bare or self.merging is None:
            raise ArgumentError(
                f"{', '.join(bare) or type(self.window).__name__} cannot be merged with later "
                "rows.",
                "aggregates of tidegate such as count(), in windows other than sliding ones.",
            )
        return found

    @property
    def merging(self) -> Same | Overlapping | None:
        """How late rows are merged into windows that are out; None where they cannot be."""
        return self.window.merging(self.by)

    def late_at(self, time: Column) -> Column:
        """Return the instant from which a row is late.

        The first result that the row would change may be out then.
        """
        at = self.window.late_at(time)
        return at if self.where is None else F.when(F.expr(self.where), at)

    @property
    def reach(self) -> timedelta | None:
        """How far before an instant an event can be that still matters to a later result."""
        return self.window.reach

    @property
    def result_time(self) -> Column:
        """The event time of a result row."""
        return self.window.result_time
