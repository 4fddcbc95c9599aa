"""Which windows become one when they meet: those that are the same, or sessions that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted, same_key

WINDOW = "window"
"""The column of a result's window."""

_ENDED, _ISLAND, _ARRIVED = "__tidegate_ended", "__tidegate_island", "arrived"


@dataclass(frozen=True)
class Same:
    """Tumbling, hopping and cumulative windows: two meet when they have one window and one key."""

    by: Sequence[str] = ()

    def met(self, stored: DataFrame, arrived: DataFrame) -> DataFrame:
        """Return the stored windows that meet one that arrived."""
        return _semi(stored, arrived, [*_alike(self.by), _side("s").eqNullSafe(_side("a"))])

    def joint(self, rows: DataFrame, into: str) -> DataFrame:
        """Add the window that each row's window becomes part of: here its own."""
        return rows.withColumn(into, quoted(WINDOW))


@dataclass(frozen=True)
class Overlapping:
    """Sessions: those of a key that overlap, or that touch at their ends, become one.

    Without a maximum length; a session that was cut at its `longest` would grow beyond it.
    """

    by: Sequence[str] = ()

    def met(self, stored: DataFrame, arrived: DataFrame) -> DataFrame:
        """Return the stored sessions that meet a session that arrived.

        No two stored sessions of a key meet each other, and no two that arrived."""
        old, new = _side("s"), _side("a")
        return _semi(
            stored,
            arrived,
            [*_alike(self.by), old["start"] <= new["end"], new["start"] <= old["end"]],
        )

    def joint(self, rows: DataFrame, into: str) -> DataFrame:
        """Add the session that each row's session becomes part of."""
        keys = [quoted(name) for name in self.by] or [F.lit(0)]
        order = Window.partitionBy(*keys).orderBy(quoted(WINDOW)["start"])
        before = F.max(quoted(WINDOW)["end"]).over(order.rowsBetween(Window.unboundedPreceding, -1))
        begins = F.coalesce((quoted(WINDOW)["start"] > quoted(_ENDED)).cast("int"), F.lit(1))
        numbered = rows.withColumn(_ENDED, before).withColumn(_ISLAND, begins)
        numbered = numbered.withColumn(_ISLAND, F.sum(_ISLAND).over(order))
        island = Window.partitionBy(*keys, _ISLAND)
        whole = F.struct(
            F.min(quoted(WINDOW)["start"]).over(island).alias("start"),
            F.max(quoted(WINDOW)["end"]).over(island).alias("end"),
        )
        return numbered.withColumn(into, whole).drop(_ENDED, _ISLAND)


def _side(alias: str) -> Column:
    return F.col(f"{alias}.{WINDOW}")


def _alike(by: Sequence[str]) -> list[Column]:
    return [same_key(by, "s", "a")] if by else []


def _semi(stored: DataFrame, arrived: DataFrame, conditions: list[Column]) -> DataFrame:
    condition = reduce(lambda one, other: one & other, conditions)
    return stored.alias("s").join(arrived.alias("a"), condition, "left_semi")
