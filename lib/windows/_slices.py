"""Where the events of sliding windows wait: in slices by their time, and in parts by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FractionalType,
    StructType,
)

from ..aggregates import Aggregate
from ..columns import is_plain, quoted
from ..durations import interval
from ..errors import ColumnTypeError
from ._grid import pane
from ._grouping import BUCKETS, SPAN, Grouping, marked
from .merging import WINDOW

SLICES = 8
"""How many slices a window has: windows of a stream come out slice by slice."""
EVENTS = "tidegate:events"
_BEGIN = "tidegate:begin"
_BUCKET = "tidegate:bucket"


def slice_length(size: int, slices: int = SLICES) -> int:
    """Return the length of a slice, of which so many are as long as a window at least."""
    return -(-pane(size) // slices)


@dataclass(frozen=True)
class Layout:
    """How events are collected: by slices of time, and by their keys.

    slice: the length of a slice in microseconds. slices: how many a window reaches back.
    inner: the keys that stand in the events, so that a group holds many keys: few large rows of
    state are quicker than many small ones. outer: the keys that make groups.
    """

    slice: int
    slices: int
    inner: tuple[int, ...]
    outer: tuple[int, ...]

    @property
    def span(self) -> int:
        """The length of a slice, and of those that its windows reach back to."""
        return (self.slices + 1) * self.slice


def layout(rows: Grouping, size: int) -> Layout:
    """Return how the events of windows of a size are collected."""
    keys = range(len(rows.by))
    if not rows.events.isStreaming:
        # Nothing waits in a batch: its slices are as long as a window.
        return Layout(slice_length(size, 1), 1, (), tuple(keys))
    types = [rows.events.schema[name].dataType for name in rows.by]
    inner = tuple(at for at in keys if is_plain(types[at]))
    return Layout(slice_length(size), SLICES, inner, tuple(at for at in keys if at not in inner))


def collected(rows: Grouping, layout: Layout, kept: Sequence[str]) -> DataFrame:
    """Collect the events of each slice in the column EVENTS, in parts by their keys."""
    inner = [quoted(rows.by[at]).alias(key(at)) for at in layout.inner]
    along = [quoted(name).alias(f"keep:{name}") for name in kept]
    event = F.struct(rows.at.alias("time"), *inner, *along, *_lifted(rows))
    own = F.window(rows.at, interval(layout.slice)).alias(WINDOW)
    # Whatever a key is called, the function of Arrow batches finds it by a name of ours.
    outer = [rows.groups[at].alias(key(at)) for at in layout.outer]
    if layout.inner:
        hashed = F.xxhash64(*[quoted(rows.by[at]) for at in layout.inner])
        outer.append(F.pmod(hashed, F.lit(BUCKETS)).cast("int").alias(_BUCKET))
    return rows.events.groupBy(own, *outer).agg(F.collect_list(event).alias(EVENTS))


def _lifted(rows: Grouping) -> list[Column]:
    """Return what each event gives to the aggregates, by the aggregate's number and the field."""
    return [
        _widened(rows.events, part.lift(rows.at), part.operation).alias(f"{index}:{name}")
        for index, agg in enumerate(rows.aggs.values())
        if isinstance(agg, Aggregate)
        for name, part in agg.reductions
    ]


def reaching(slices: DataFrame, layout: Layout) -> DataFrame:
    """Bring each slice together with those before it that its windows reach back to.

    EVENTS then holds a list for each of these slices. The events of a slice have closed with it, so
    that a late row is in no window of its slice.
    """
    start = F.unix_micros(quoted(WINDOW)["start"])
    begins = [start - F.lit(number * layout.slice) for number in range(layout.slices + 1)]
    spread = slices.select("*", F.explode(F.array(*begins)).alias(_BEGIN))
    begin = quoted(_BEGIN)
    span = F.struct(
        F.timestamp_micros(begin).alias("start"),
        F.timestamp_micros(begin + F.lit(layout.span)).alias("end"),
    )
    spans = marked(spread, WINDOW, span)
    parts = [quoted(name) for name in slices.columns if name not in (WINDOW, EVENTS)]
    grouped = spans.groupBy(quoted(SPAN).alias(WINDOW), *parts)
    found = grouped.agg(F.collect_list(EVENTS).alias(EVENTS))
    keys = [quoted(key(at)) for at in layout.outer]
    return found.select(quoted(WINDOW), *keys, quoted(EVENTS))


def key(at: int) -> str:
    """Return what the key at a place among the keys is called until the result."""
    return f"key:{at}"


def _widened(events: DataFrame, lifted: Column, operation: str) -> Column:
    found = events.select(lifted).schema[0].dataType
    if operation != "sum":
        _refuse_nested(found)
        return lifted
    if isinstance(found, DecimalType):
        return lifted.cast(DecimalType(min(38, found.precision + 10), found.scale))
    return lifted.cast("double" if isinstance(found, FractionalType) else "bigint")


def _refuse_nested(found: DataType) -> None:
    fields = [field.dataType for field in found] if isinstance(found, StructType) else [found]
    if any(isinstance(field, StructType | ArrayType) for field in fields):
        raise ColumnTypeError(
            f"an aggregate in a sliding window orders values of type {found.simpleString()}.",
            "values of a plain type: numbers, text, times, booleans, bytes.",
        )
