"""The join whose rows come out when nothing can match any more: rows wait in slices, then in panes.

State is a few large rows, and the matching is done in numpy, pane by pane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..columns import WATERMARK_KEY, quoted
from ..durations import interval
from ._join import LEFT, RIGHT, Join, has_null
from ._matching import Matching
from ._panes import span
from ._sides import Side

BUCKETS = 64
"""Into how many parts the keys of a pane are put: few large rows of state are quicker than many
small ones."""

_AT = "__tidegate_at"
_BUCKET = "__tidegate_bucket"
_SPAN = "__tidegate_span"
_PANE = "__tidegate_pane"
# Spark knows a window by a mark on its column, whatever has computed the column, and closes the
# window when its end has passed.
_IS_WINDOW = {"spark.timeWindow": True}


@dataclass(frozen=True)
class FinalJoin(Join):
    """A join whose rows come out by the panes of its left side."""

    def rows(self) -> DataFrame:
        """Return the rows that match, and those that match nothing, pane by pane."""
        groups = self._panes(self._slices())
        matching = Matching(
            before=self.panes.before,
            after=self.panes.after,
            length=self.panes.length,
            keys=len(self.left.on),
            kind=self.kind,
        )
        schema = self._schema()

        def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from (found.rename_columns(schema.names) for found in matching.match(batch))

        return groups.mapInArrow(match, schema)

    def _slices(self) -> DataFrame:
        """Return the rows of both sides, collected by slice and bucket."""
        left = self._tagged(self.left, LEFT)
        right = self._tagged(self.right, RIGHT)
        tagged = left.unionByName(right, allowMissingColumns=True)
        slices = F.window(_AT, interval(self.panes.slice)).alias(_SPAN)
        return _collected(tagged.groupBy(slices, _BUCKET))

    def _tagged(self, side: Side, name: str) -> DataFrame:
        """Return a side's rows as structs under `name`, each with its time and bucket."""
        keyless = has_null(side)
        # Rows whose key has a null match nothing, and are spread by their time.
        hashed = F.when(keyless, F.xxhash64(side.at)).otherwise(F.xxhash64(*map(quoted, side.on)))
        bucket = F.pmod(hashed, F.lit(BUCKETS)).cast("int")
        columns = [
            quoted(column).alias(f"column:{column}") for column in (*side.on, *self.others(side))
        ]
        row = F.struct(side.at.alias("time"), *columns)
        frame = side.frame
        if not self.keeps_unmatched(side):
            # Naming the time keeps the filter above the watermark, which such a row moves like any
            # other.
            frame = frame.where(~keyless | side.at.isNull())
        return frame.select(side.at.alias(_AT), bucket.alias(_BUCKET), row.alias(name))

    def _panes(self, slices: DataFrame) -> DataFrame:
        """Return the rows that each pane needs, out of the slices that hold them."""
        full = self.kind == "full"
        start = F.unix_micros(F.col(_SPAN)["start"])
        home = self.panes.home(start)
        right_in = self.panes.met(start)
        left_in = self.panes.swapped().met(start)
        # A pane needs its own left rows, and the right rows that they may match; for "full" also
        # its own right rows, and the left rows that these may match.
        pane = F.col(_PANE)
        edges = [home, *right_in]
        needs_left = pane == home
        needs_right = pane.between(*right_in)
        if full:
            edges += left_in
            needs_left = needs_left | pane.between(*left_in)
            needs_right = needs_right | (pane == home)

        length = F.lit(self.panes.length)
        needing = F.sequence(F.least(*edges), F.greatest(*edges), length)
        spread = slices.select("*", F.explode(needing).alias(_PANE))
        end = pane + F.lit(self.panes.until(full=full))
        parts = spread.select(
            span(pane, end).alias(_SPAN),
            _BUCKET,
            F.when(needs_left & (F.size(LEFT) > 0), F.col(LEFT)).alias(LEFT),
            F.when(needs_right & (F.size(RIGHT) > 0), F.col(RIGHT)).alias(RIGHT),
        )
        needed = parts.where(F.col(LEFT).isNotNull() | F.col(RIGHT).isNotNull())
        grouped = needed.withMetadata(_SPAN, self._mark()).groupBy(_SPAN, _BUCKET)
        return _collected(grouped).select(_SPAN, LEFT, RIGHT)

    def _mark(self) -> dict[str, Any]:
        """Return the metadata of a column of windows with the left side's watermark."""
        metadata = self.left.frame.schema[self.left.time].metadata or {}
        delay = metadata.get(WATERMARK_KEY)
        return _IS_WINDOW if delay is None else {**_IS_WINDOW, WATERMARK_KEY: delay}

    def _schema(self) -> StructType:
        """Return the columns of joined rows: times, keys, then the other columns of each side."""
        times = [(LEFT, self.left, self.left.time)]
        keys = [(name, self.left, name) for name in self.left.on]
        others = [(f"{LEFT}{name}", self.left, name) for name in self.left.others]
        if self.kind not in ("semi", "anti"):
            times.append((RIGHT, self.right, self.right.time))
            others += [(f"{RIGHT}{name}", self.right, name) for name in self.right.others]
        named = [*times, *keys, *others]
        return StructType(
            [StructField(name, side.frame.schema[of].dataType) for name, side, of in named]
        )


def _collected(groups: GroupedData) -> DataFrame:
    return groups.agg(F.collect_list(LEFT).alias(LEFT), F.collect_list(RIGHT).alias(RIGHT))
