"""What all kinds of windows answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from pyspark.sql import Column, DataFrame

from ..aggregates import Aggregate
from ..columns import quoted
from .merging import WINDOW, Overlapping, Same


class Window(Protocol):
    """A kind of window with its lengths: Tumbling, Hopping, Sliding, Session or Cumulative."""

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the aggregates of each window and key: window, the by columns, the aggregates."""

    def late_at(self, time: Column) -> Column:
        """Return the instant from which a row is late.

        The first result that the row would change may be out then.
        """

    def merging(self, by: str | Sequence[str]) -> Same | Overlapping | None:
        """Return how late rows are merged into windows that are out; None where they cannot be."""

    @property
    def reach(self) -> timedelta | None:
        """How far before an instant an event can be that still matters to a result after it.

        None where that is unknown.
        """

    @property
    def result_time(self) -> Column:
        """The event time of a result: a result is final once all events up to it have been read."""


def result_time() -> Column:
    """Return the end of a result's window."""
    return quoted(WINDOW)["end"]
