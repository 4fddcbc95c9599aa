"""Overlapping windows by panes.

Each event is aggregated once, in the pane that holds it, and the panes of a window are merged.

On a stream this also decides what is late. A pane closes with the first of its windows; a row that
comes after that is in none of them. Copies of a row, one for each window, would be dropped from the
windows that have closed and counted in the others, and the answer would depend on the batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ._grouping import SPAN, Grouping, marked, restored
from .merging import WINDOW

_WINDOWS = "tidegate:windows"


class Layout(Protocol):
    """Which pane holds an instant, and which windows a pane is a part of."""

    def placed(self, frame: DataFrame, at: Column) -> DataFrame:
        """Add what the other methods need to know of each row's instant, computed once."""

    def pane(self, at: Column) -> Column:
        """Return the pane that holds an instant: its start, and the end of its first window."""

    def windows(self, at: Column) -> Column:
        """Return all windows that hold an instant, as an array of structs of start and end."""


def by_panes(rows: Grouping, layout: Layout) -> DataFrame:
    """Aggregate the rows in panes, then merge the panes of each window.

    Aggregates that do not merge take the rows themselves: a stream keeps them until their pane has
    closed, and a batch, in which no row is late, copies them into their windows at once.
    """
    placed = replace(rows, events=layout.placed(rows.events, rows.at))
    pane = layout.pane(rows.at)
    if rows.mergeable is not None:
        return rows.merged(_spread(placed.parts().spanning(pane), layout), quoted(SPAN))
    if rows.events.isStreaming:
        events = restored(_spread(placed.collected(pane), layout))
    else:
        events = _copied(rows.events.where(rows.at.isNotNull()), rows.time, rows.at, layout)
    return replace(rows, events=events).over(quoted(SPAN))


def _spread(panes: DataFrame, layout: Layout) -> DataFrame:
    """Return a copy of each pane for each of its windows."""
    return _copied(panes, WINDOW, quoted(WINDOW)["start"], layout)


def _copied(frame: DataFrame, time: str, at: Column, layout: Layout) -> DataFrame:
    """Return a copy of each row for each window that holds the instant `at`, in the column SPAN.

    `time` names the column that bears the watermark.
    """
    copies = layout.placed(frame, at).withColumn(_WINDOWS, F.explode(layout.windows(at)))
    return marked(copies, time, quoted(_WINDOWS)).drop(_WINDOWS)
