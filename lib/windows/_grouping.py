"""What all windows share: the call's checks, and the grouping of rows by window and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NumericType, StructType, VariantType

from ..aggregates import Aggregate, Kind, merges, partials
from ..columns import (
    WATERMARK_KEY,
    first_line,
    names,
    quoted,
    require,
    require_event_time,
    require_free,
    type_of,
)
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from .merging import WINDOW

SPAN = "tidegate:window"
ROWS = "tidegate:rows"
BUCKETS = 64
"""How many parts the rows of a window that wait are kept in."""
_BUCKET = "tidegate:bucket"


@dataclass(frozen=True)
class Grouping:
    """Checked arguments of a window transform."""

    events: DataFrame
    time: str
    by: tuple[str, ...]
    aggs: dict[str, Aggregate | Column]

    @property
    def at(self) -> Column:
        """The event-time column."""
        return quoted(self.time)

    @property
    def keys(self) -> list[Column]:
        """The by columns."""
        return [quoted(name) for name in self.by]

    @property
    def groups(self) -> list[Column]:
        """The by columns, as what rows are grouped by."""
        return [self._group(name) for name in self.by]

    def _group(self, name: str) -> Column:
        if name != self.time:
            return quoted(name)
        # The copy has no watermark: Spark allows one column with a watermark in a grouping, which
        # is the window.
        return F.timestamp_micros(F.unix_micros(self.at)).alias(name)

    @property
    def mergeable(self) -> dict[str, Aggregate] | None:
        """The aggregates when all of them merge, else None."""
        merging = {name: agg for name, agg in self.aggs.items() if isinstance(agg, Aggregate)}
        return merging if len(merging) == len(self.aggs) else None

    def over(self, window: Column, *cuts: Column, first: Sequence[Column] = ()) -> DataFrame:
        """Aggregate the rows of each window and key.

        `cuts` part the rows further, and are not in the result; nor is what rows are grouped by
        `first`, ahead of their keys, which must follow from these.
        """
        answers = [
            (agg.finish(agg.partial(self.at)) if isinstance(agg, Aggregate) else agg).alias(name)
            for name, agg in self.aggs.items()
        ]
        try:
            groups = [window.alias(WINDOW), *first, *self.groups, *cuts]
            rows = self.events.groupBy(*groups).agg(*answers)
        except AnalysisException as fault:
            raise ColumnError(
                f"aggs cannot be computed: {first_line(fault)}",
                "an Aggregate such as count(), or a Spark aggregate expression such as "
                "F.stddev('ms').",
            ) from fault
        return rows.select(quoted(WINDOW), *self.keys, *[quoted(name) for name in self.aggs])

    def spanning(self, window: Column) -> DataFrame:
        """Aggregate the rows of each key and window.

        The window is any struct of start and end that a row has.
        """
        spans = marked(self.events.where(self.at.isNotNull()), self.time, window)
        return replace(self, events=spans).over(quoted(SPAN))

    def collected(self, window: Column, *also: str) -> DataFrame:
        """Return the rows of each window in the column ROWS, with what keys and aggregates read.

        `also` names further columns that rows keep; `restored` takes the rows apart again.

        Rows are kept in a few parts by their key, each of them one row of state: to write a row of
        state for each event costs more than to write them together.
        """
        rows = self.events.where(self.at.isNotNull())
        bucket = F.pmod(F.xxhash64(*self.keys), F.lit(BUCKETS)) if self.by else F.lit(0)
        row = F.struct(*map(quoted, dict.fromkeys([*self._read, *also])))
        spans = marked(rows.withColumn(_BUCKET, bucket.cast("int")), self.time, window)
        grouped = spans.groupBy(quoted(SPAN).alias(WINDOW), quoted(_BUCKET))
        return grouped.agg(F.collect_list(row).alias(ROWS))

    @property
    def _read(self) -> list[str]:
        """The columns that keys and aggregates read; all columns where one is an expression."""
        values = [value for agg in (self.mergeable or {}).values() for value, _ in agg.inputs]
        wanted = {self.time, *self.by, *(value for value in values if isinstance(value, str))}
        known = self.mergeable is not None and all(isinstance(value, str) for value in values)
        return [name for name in self.events.columns if not known or name in wanted]

    def parts(self) -> Grouping:
        """The same grouping with its aggregates left unfinished; all of them must merge."""
        return replace(self, aggs=dict(partials(self.mergeable or {})))

    def merged(self, parts: DataFrame, window: Column) -> DataFrame:
        """Merge rows of unfinished aggregates that share a window and a key, and finish them."""
        aggs = self.mergeable or {}
        merging = [
            aggs[name].finish(merge).alias(name) for name, merge in merges(parts, aggs).items()
        ]
        rows = parts.groupBy(window.alias(WINDOW), *self.keys).agg(*merging)
        return rows.select(quoted(WINDOW), *self.keys, *[quoted(name) for name in aggs])


def restored(frame: DataFrame) -> DataFrame:
    """Return the rows that `Grouping.collected` put together, each with the column SPAN."""
    return frame.select(quoted(SPAN), F.explode(ROWS).alias(ROWS)).select(
        quoted(SPAN), f"`{ROWS}`.*"
    )


def marked(frame: DataFrame, time: str, window: Column) -> DataFrame:
    """Add a column SPAN of windows, which Spark closes by the watermark of `time`.

    Spark knows a window by a mark on its column, and takes its second field for the end, whatever
    has computed it.
    """
    watermark = (frame.schema[time].metadata or {}).get(WATERMARK_KEY)
    mark = {} if watermark is None else {WATERMARK_KEY: watermark}
    return frame.withColumn(SPAN, window).withMetadata(SPAN, {"spark.timeWindow": True, **mark})


def grouping(
    events: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate | Column], time: str
) -> Grouping:
    """Check what a window transform was given, before any stream starts."""
    keys = names(by)
    require_event_time(events, time)
    require(events, keys)
    if not isinstance(aggs, Mapping) or not aggs:
        raise ArgumentError(
            f"aggs is {'empty' if isinstance(aggs, Mapping) else type(aggs).__name__}.",
            "at least one aggregate by the name of its column.",
            "aggs={'n': count()}",
        )
    for name, agg in aggs.items():
        if not isinstance(agg, Aggregate | Column):
            raise ColumnTypeError(
                f"aggs[{name!r}] is {agg!r}, a {type(agg).__name__}.",
                "an Aggregate such as count(), or a Spark aggregate expression.",
                f"aggs={{{name!r}: count()}}",
            )
        if isinstance(agg, Aggregate):
            _require_inputs(events, name, agg)
    require_free([WINDOW], keys, "by")
    require_free([WINDOW, *keys], aggs)
    return Grouping(events, time, tuple(keys), dict(aggs))


def _require_inputs(events: DataFrame, name: str, agg: Aggregate) -> None:
    for value, kind in agg.inputs:
        found = type_of(events, value, f"aggs[{name!r}]")
        if not _fits(found, kind):
            raise ColumnTypeError(
                f"aggs[{name!r}] reads a column of type {found.simpleString()}.",
                "a number." if kind == "number" else "a type whose values have an order.",
                "cast it with withColumn before the transform.",
            )


def _fits(found: DataType, kind: Kind) -> bool:
    if kind == "number":
        return isinstance(found, NumericType)
    if kind == "ordered":
        if isinstance(found, StructType):
            return all(_fits(field.dataType, kind) for field in found)
        return (
            _fits(found.elementType, kind)
            if isinstance(found, ArrayType)
            else not isinstance(found, MapType | VariantType)
        )
    return True
