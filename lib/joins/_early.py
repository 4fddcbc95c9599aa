"""The join of streams whose matches come out at once: Spark's own, with its edges guarded.

Spark's join differs from the join by definition in some places, and each is met here. A row exactly
at the watermark would be late: times go in a microsecond later than they are. In a full join null
keys would match each other: a row without a key matches nothing by the join's condition, and so
comes out at once and is never kept. Intervals of a day or more would follow the session's time
zone: times are compared as numbers. A semi join loses a left row whose match comes in the same
batch and can be let go at once, as it can where batches follow one another: of a stream it is an
inner join, of whose pairs the first of each left row is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import WATERMARK_KEY, quoted
from ._join import LEFT, RIGHT, Join
from ._sides import Side

_SPARKS = {
    "inner": "inner",
    "left": "left_outer",
    "full": "full_outer",
    "semi": "left_semi",
    "anti": "left_outer",
}
"""The kinds by Spark's names. Its streams have no anti join, which is a left one less its pairs."""
_ROW = "row"
"""What tells left rows from one another, for as long as they are kept."""

_SECOND = 1_000_000
_SLACK = 1_000
"""In microseconds: how far doubles may round without a match being lost."""


@dataclass(frozen=True)
class EarlyJoin(Join):
    """A join whose pairs come out in the batch in which the second of their rows arrives."""

    def rows(self) -> DataFrame:
        """Return the rows that match, and those that match nothing as soon as that is certain."""
        left = self._given(self.left, LEFT)
        right = self._given(self.right, RIGHT)
        if self.kind == "semi" and left.isStreaming:
            return self._restored(self._met(left, right))
        joined = left.join(right, self._matches(), _SPARKS[self.kind])
        if self.kind == "anti":
            joined = joined.where(quoted(RIGHT).isNull())
        return self._restored(joined)

    def _met(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the left rows that match, each with its first match.

        Spark keeps a pair's left row in mind until the row itself can match no more.
        """
        told = left.withColumn(_ROW, F.expr("uuid()"))
        pairs = told.join(right, self._matches(), "inner")
        return pairs.select(*map(quoted, told.columns)).dropDuplicatesWithinWatermark([_ROW])

    def _given(self, side: Side, name: str) -> DataFrame:
        """Return a side's columns by names of their own, of which the time alone has a mark."""
        # The optimiser would move conditions on the keys below the watermark, which all rows have
        # to move on; it moves none through a condition that is not deterministic. And no two sides
        # may look alike: of several joins in one query Spark would read some sides from another
        # join's exchange, and these joins then drop rows, and let rows go, at a wrong watermark.
        alone = -1 - uuid4().int % 2**30
        told = side.frame.where((F.spark_partition_id() >= alone) & side.at.isNotNull())
        metadata = side.frame.schema[side.time].metadata or {}
        marked = {WATERMARK_KEY: metadata[WATERMARK_KEY]}
        plain: dict[str, Any] = {}
        later = F.timestamp_micros(F.unix_micros(side.at) + F.lit(1))
        keys = [
            quoted(key).alias(_key(name, number), metadata=plain)
            for number, key in enumerate(side.on)
        ]
        others = [
            quoted(other).alias(f"{name}{other}", metadata=plain) for other in self.others(side)
        ]
        return told.select(later.alias(name, metadata=marked), *keys, *others)

    def _matches(self) -> Column:
        keys = range(len(self.left.on))
        same = [quoted(_key(LEFT, number)) == quoted(_key(RIGHT, number)) for number in keys]
        keyed = [
            quoted(_key(name, number)).isNotNull() for name in (LEFT, RIGHT) for number in keys
        ]
        return reduce(and_, [*same, *keyed, self._near(), self._lets_go()])

    def _near(self) -> Column:
        """Return whether the times are near each other, as whole numbers of microseconds."""
        left = F.unix_micros(LEFT)
        right = F.unix_micros(RIGHT)
        earliest = left - F.lit(self.panes.before)
        latest = left + F.lit(self.panes.after)
        # For a comparison by < or <= Spark would try to work out how long to keep rows, and warn
        # that it cannot.
        return F.greatest(earliest, F.least(latest, right)) == right

    def _lets_go(self) -> Column:
        """Return what all rows that are near each other fulfil, as Spark can work with it.

        From this condition Spark works out when a row can be let go. It takes doubles for seconds.
        """
        left = quoted(LEFT).cast("double")
        right = quoted(RIGHT).cast("double")
        before = F.lit((self.panes.before + _SLACK) / _SECOND)
        after = F.lit((self.panes.after + _SLACK) / _SECOND)
        return (right <= left + after) & (left <= right + before)

    def _restored(self, joined: DataFrame) -> DataFrame:
        """Return joined rows with their own times, and each key once."""
        both = self.kind not in ("semi", "anti")
        sides = [(LEFT, self.left), (RIGHT, self.right)] if both else [(LEFT, self.left)]
        times = [
            F.timestamp_micros(F.unix_micros(name) - F.lit(1)).alias(name) for name, _ in sides
        ]
        keys = [
            F.coalesce(*[quoted(_key(name, number)) for name, _ in sides]).alias(key)
            for number, key in enumerate(self.left.on)
        ]
        others = [quoted(f"{name}{other}") for name, side in sides for other in self.others(side)]
        return joined.select(*times, *keys, *others)


def _key(side: str, number: int) -> str:
    # Other columns begin with the side's name.
    return f"key:{number}:{side}"
