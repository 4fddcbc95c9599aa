"""What both ways of a stream-stream join share: its sides, its bounds, and its result's columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ._matching import Kind
from ._panes import Panes
from ._sides import RESULT_TIME, Side, named

LEFT = "__tidegate_left"
RIGHT = "__tidegate_right"
"""Each side's time among the joined rows; before its other columns' names it tells the side."""


@dataclass(frozen=True)
class Join:
    """A join whose rows without a match are those of the left side, or of both."""

    left: Side
    right: Side
    panes: Panes
    kind: Kind

    def keeps_unmatched(self, side: Side) -> bool:
        """Return whether a row of the side comes out though it matches nothing."""
        if side is self.left:
            return self.kind in ("left", "full", "anti")
        return self.kind == "full"

    def others(self, side: Side) -> list[str]:
        """Return the columns, beside keys and time, that the result has of a side."""
        if side is self.right and self.kind in ("semi", "anti"):
            return []
        return side.others

    def answer(
        self, rows: DataFrame, left: Side, right: Side, suffixes: tuple[str, str]
    ) -> DataFrame:
        """Return the columns of the result, for the sides as the caller has named them.

        The rows have LEFT and RIGHT, the keys by their names, and the other columns after LEFT or
        RIGHT and their names; for "semi" and "anti" the left side's alone.
        """

        def value(side: Side, name: str) -> Column:
            prefix = LEFT if side is self.left else RIGHT
            if name in side.on:
                return quoted(name)
            return quoted(prefix if name == side.time else f"{prefix}{name}")

        if self.kind in ("semi", "anti"):
            return rows.select(*[value(left, name).alias(name) for name in left.frame.columns])
        columns = named(left, right, suffixes)
        return rows.select(
            *map(quoted, left.on),
            self._result_time().alias(RESULT_TIME),
            *[value(side, given).alias(name) for side, given, name in columns],
        )

    def _result_time(self) -> Column:
        """Return the later of a pair's times, or the last instant at which a match could come."""
        left = F.unix_micros(LEFT)
        right = F.unix_micros(RIGHT)
        left_alone = left + F.lit(max(0, self.panes.after))
        right_alone = right + F.lit(max(0, self.panes.before))
        is_pair = left.isNotNull() & right.isNotNull()
        later = F.when(is_pair, F.greatest(left, right))
        return F.timestamp_micros(later.otherwise(F.coalesce(left_alone, right_alone)))


def has_null(side: Side) -> Column:
    """Return whether a row's key has a null, and so matches nothing."""
    return reduce(or_, [quoted(key).isNull() for key in side.on])
