"""Sliding windows: for each event, the events of its key that led up to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FractionalType,
    StructField,
    StructType,
)

from ..aggregates import Aggregate
from ..columns import interval, microseconds, names, quoted, require, require_free
from ..errors import ArgumentError, ColumnTypeError
from ._grid import Grid, pane
from ._grouping import SPAN, Grouping, grouping, marked
from ._rolling import Rolling, Windows
from .merging import WINDOW
from .window import result_time

EVENTS = "tidegate:events"
_BEGIN = "tidegate:begin"


@dataclass(frozen=True)
class Sliding:
    """For each event the window [t - size, t] that ends with it, both ends inclusive.

    The function `sliding` says which windows there are.

    Args:
        size: how far a window reaches back from its event.
        keep: further columns of the event itself that its row bears; with `windows="each"` only.
        windows: which windows come out, "each" or "all".

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    size: str | timedelta
    keep: str | Sequence[str] = ()
    windows: Windows = "each"

    def __post_init__(self) -> None:
        microseconds(self.size, "size")
        kept = names(self.keep, "keep")
        if self.windows not in ("each", "all"):
            raise ArgumentError(f"windows is {self.windows!r}.", "'each' or 'all'.")
        if kept and self.windows == "all":
            raise ArgumentError(
                "keep is given with windows='all', where a row is no event.",
                "keep with windows='each'.",
            )

    def aggregate(
        self,
        events: DataFrame,
        *,
        by: str | Sequence[str] = (),
        aggs: Mapping[str, Aggregate],
        time: str = "event_time",
    ) -> DataFrame:
        """Return the aggregates of each window: window, the by and kept columns, the aggregates."""
        rows = grouping(events, by, aggs, time)
        width = microseconds(self.size)
        kept = names(self.keep, "keep")
        _require_kept(rows, kept)
        pairs = _pairs(_panes(rows, width, kept), rows, width)
        return _answers(rows, _rolled(pairs, rows, width, kept, self.windows), kept)

    def late_at(self, time: Column) -> Column:
        """Return the end of an instant's pane, at most a size and a microsecond later."""
        return Grid(pane(microseconds(self.size)), 0).window(time)["end"]

    def merging(self, by: str | Sequence[str]) -> None:
        """Return None: windows that are out cannot take up late rows."""
        return

    @property
    def reach(self) -> timedelta:
        """How far before another event an event can be that is still in its window."""
        return timedelta(microseconds=microseconds(self.size))

    @property
    def result_time(self) -> Column:
        """The event's own time, at which its window ends."""
        return result_time()


def sliding(
    events: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate],
    time: str = "event_time",
    keep: str | Sequence[str] = (),
    windows: Windows = "each",
) -> DataFrame:
    """Aggregate, for each event, the events of its key in [t - size, t], both ends inclusive.

    `windows="each"` gives a row for each event; events at the same instant have equal windows.
    `windows="all"` gives a row for every distinct set of events that lie within `size` of each
    other: besides the windows that end at an event, those that begin a microsecond after one, where
    they hold a set of their own. Events with a null time are in no window; a null key is a key of
    its own.

    Each key's events are collected in panes of one size and a microsecond; the rolling part is done
    in numpy over two neighbouring panes that have closed. The cost grows with n log n of a pane's
    events, not with their square.

    State on a stream: the aggregated columns of the events of the last two to three panes. A row is
    late once its pane has closed, at most a size and a microsecond after it; it is then in no
    window at all. A window comes out once, in append mode, when the watermark has passed the end of
    its last pane: it is final then. The result has no watermark of its own. A checkpoint is bound
    to size, by, aggs, keep and windows.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: how far a window reaches back from its event.
        by: key columns.
        aggs: the aggregate of each result column; sums, counts, means, extremes, first and last.
        time: the event-time column, a timestamp.
        keep: further columns of the event itself that its row bears; with `windows="each"` only.
        windows: which windows come out, "each" or "all".

    Returns:
        `window` (struct of start and end, here both inclusive), the by columns, the kept columns,
        one column an aggregate.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: RANGE frames of SQL:2003; `windows="all"` as Kafka Streams' sliding windows (KIP-450).

    >>> from tidegate.aggregates import count, total
    >>> sliding(clicks, "5 minutes", by="user", aggs={"clicks": count()}, keep="page").columns
    ['window', 'user', 'page', 'clicks']
    """
    window = Sliding(size, keep, windows)
    return window.aggregate(events, by=by, aggs=aggs, time=time)


def _require_kept(rows: Grouping, kept: list[str]) -> None:
    for name, agg in rows.aggs.items():
        if not isinstance(agg, Aggregate) or not agg.folds:
            raise ArgumentError(
                f"aggs[{name!r}] cannot roll from one event to the next.",
                "count, total, mean, smallest, largest, first, last.",
                f"hopping(events, size, hop, aggs={{{name!r}: ...}}) for other aggregates.",
            )
    require(rows.events, kept, "keep")
    require_free([WINDOW, *rows.by, *rows.aggs], kept, "keep")


def _panes(rows: Grouping, width: int, kept: list[str]) -> DataFrame:
    length = pane(width)
    lifted = [
        _widened(rows.events, fold.lift(rows.at), fold.operation).alias(f"{index}:{name}")
        for index, agg in enumerate(rows.aggs.values())
        if isinstance(agg, Aggregate)
        for name, fold in agg.folds
    ]
    event = F.struct(
        rows.at.alias("time"), *[quoted(name).alias(f"keep:{name}") for name in kept], *lifted
    )
    own = F.window(rows.at, interval(length)).alias(WINDOW)
    return rows.events.groupBy(own, *rows.groups).agg(F.collect_list(event).alias(EVENTS))


def _pairs(panes: DataFrame, rows: Grouping, width: int) -> DataFrame:
    """Bring each pane together with the one before it: columns window, "key:0" and so on, events.

    The events of a pane have closed with it, so that a late row is in neither pair of its pane.
    """
    length = pane(width)
    start = F.unix_micros(quoted(WINDOW)["start"])
    begins = F.explode(F.array(start - F.lit(length), start)).alias(_BEGIN)
    spread = panes.select("*", begins)
    span = F.struct(
        F.timestamp_micros(quoted(_BEGIN)).alias("start"),
        F.timestamp_micros(quoted(_BEGIN) + F.lit(2 * length)).alias("end"),
    )
    # Whatever a key is called, the function of Arrow batches finds it by a name of ours.
    keys = [quoted(name).alias(_key(at)) for at, name in enumerate(rows.by)]
    grouped = marked(spread, WINDOW, span).groupBy(quoted(SPAN).alias(WINDOW), *keys)
    return grouped.agg(F.flatten(F.collect_list(EVENTS)).alias(EVENTS))


def _key(at: int) -> str:
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


def _rolled(
    panes: DataFrame, rows: Grouping, width: int, kept: list[str], windows: Windows
) -> DataFrame:
    collected = panes.schema[EVENTS].dataType
    if not isinstance(collected, ArrayType) or not isinstance(collected.elementType, StructType):
        raise TypeError(f"collected events are {collected.simpleString()}")
    event = collected.elementType
    folds = [
        fold.operation
        for agg in rows.aggs.values()
        if isinstance(agg, Aggregate)
        for _, fold in agg.folds
    ]
    rolling = Rolling(
        width=width, keys=len(rows.by), kept=len(kept), operations=tuple(folds), windows=windows
    )
    schema = StructType(
        [
            panes.schema[WINDOW],
            *[panes.schema[_key(at)] for at in range(len(rows.by))],
            *[StructField(field.name, field.dataType) for field in event.fields[1:]],
        ]
    )

    def roll(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from rolling.roll(batch)

    return panes.mapInArrow(roll, schema)


def _answers(rows: Grouping, rolled: DataFrame, kept: list[str]) -> DataFrame:
    answers = []
    for index, (name, agg) in enumerate(rows.aggs.items()):
        if isinstance(agg, Aggregate):
            fields = {field: quoted(f"{index}:{field}") for field, _ in agg.folds}
            partial = (
                fields[""]
                if "" in fields
                else F.struct(*[value.alias(key) for key, value in fields.items()])
            )
            answers.append(agg.finish(partial).alias(name))
    keys = [quoted(_key(at)).alias(name) for at, name in enumerate(rows.by)]
    bears = [quoted(f"keep:{name}").alias(name) for name in kept]
    return rolled.select(quoted(WINDOW), *keys, *bears, *answers)
