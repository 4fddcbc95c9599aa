"""Which windows become one when they meet: those that are the same, or sessions that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted, same_key

WINDOW = "window"
"""The column of a result's window."""

_BEFORE = "__tidegate_ended"
_ISLAND = "__tidegate_island"
_STORED = "s"
_ARRIVED = "a"


@dataclass(frozen=True)
class Same:
    """Tumbling, hopping and cumulative windows: two meet when they have one window and one key."""

    by: Sequence[str] = ()

    def met(self, stored: DataFrame, arrived: DataFrame, also: Column) -> DataFrame:
        """Return the stored windows that meet a window that arrived, or of which `also` is true."""
        same = _window_of(_STORED).eqNullSafe(_window_of(_ARRIVED))
        return _chosen(stored, arrived, [*_same_keys(self.by), same], also)

    def joint(self, rows: DataFrame, into: str) -> DataFrame:
        """Add the window that each row's window becomes part of: here its own."""
        return rows.withColumn(into, quoted(WINDOW))


@dataclass(frozen=True)
class Overlapping:
    """Sessions: those of a key that overlap, or that touch at their ends, become one.

    Without a maximum length; a session that was cut at its `longest` would grow beyond it.
    """

    by: Sequence[str] = ()

    def met(self, stored: DataFrame, arrived: DataFrame, also: Column) -> DataFrame:
        """Return the stored sessions that meet one that arrived, or of which `also` is true.

        No two stored sessions of a key meet each other, and no two that arrived.
        """
        old = _window_of(_STORED)
        new = _window_of(_ARRIVED)
        touching = [old["start"] <= new["end"], new["start"] <= old["end"]]
        return _chosen(stored, arrived, [*_same_keys(self.by), *touching], also)

    def joint(self, rows: DataFrame, into: str) -> DataFrame:
        """Add the session that each row's session becomes part of.

        Gaps and islands: in the order of their starts, a session that starts after all before it
        have ended begins an island, and sessions of one island are one session.
        """
        start = quoted(WINDOW)["start"]
        end = quoted(WINDOW)["end"]
        keys = [quoted(name) for name in self.by] or [F.lit(0)]
        order = Window.partitionBy(*keys).orderBy(start)
        before = F.max(end).over(order.rowsBetween(Window.unboundedPreceding, -1))
        ended = rows.withColumn(_BEFORE, before)
        # 1 where an island begins, 0 elsewhere: the running sum numbers the islands.
        begins = F.coalesce((start > quoted(_BEFORE)).cast("int"), F.lit(1))
        numbered = ended.withColumn(_ISLAND, begins).withColumn(_ISLAND, F.sum(_ISLAND).over(order))
        island = Window.partitionBy(*keys, _ISLAND)
        first = F.min(start).over(island).alias("start")
        last = F.max(end).over(island).alias("end")
        return numbered.withColumn(into, F.struct(first, last)).drop(_BEFORE, _ISLAND)


def _window_of(alias: str) -> Column:
    return F.col(f"{alias}.{WINDOW}")


def _same_keys(by: Sequence[str]) -> list[Column]:
    return [same_key(by, _STORED, _ARRIVED)] if by else []


def _chosen(
    stored: DataFrame, arrived: DataFrame, conditions: list[Column], also: Column
) -> DataFrame:
    """Return the stored rows that an arrived row fits, or of which `also` is true, read once."""
    fits = reduce(and_, conditions).outer()
    return stored.alias(_STORED).where(also | arrived.alias(_ARRIVED).where(fits).exists())
