"""Sliding windows: for each event, the events of its key that led up to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from ..aggregates import Aggregate
from ..columns import names, quoted, require, require_free
from ..durations import microseconds
from ..errors import ArgumentError
from ._grid import Grid
from ._grouping import Grouping, grouping
from ._rolling import Rolling, Windows
from ._slices import EVENTS, Layout, collected, key, layout, reaching, slice_length
from .merging import WINDOW
from .window import result_time


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
        kept = names(self.keep, "keep")
        _require_kept(rows, kept)
        laid = layout(rows, microseconds(self.size))
        slices = reaching(collected(rows, laid, kept), laid)
        return _answers(rows, _rolled(slices, rows, laid, kept, self), kept)

    def late_at(self, time: Column) -> Column:
        """Return the end of an instant's slice, which is an eighth of the size long."""
        return Grid(slice_length(microseconds(self.size)), 0).window(time)["end"]

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

    On a stream events are collected in slices, an eighth of the size long; the rolling part is done
    in numpy over a slice that has closed and the eight before it. The cost grows with n log n of
    these slices' events, not with their square.

    State on a stream: the aggregated and kept columns of the events of the open slices, and of
    those before them that their windows reach back to, four to five sizes together. The events of a
    slice are kept in 64 parts by key; a part, with all that it reaches back to, stands in one row
    of state and must stay below 2 GB. A row is late once its slice has closed, and is then in no
    window at all. A window comes out once, in append mode, when the watermark has passed the end of
    the slice in which it ends: it is final then. The result has no watermark of its own. A
    checkpoint is bound to size, by, aggs, keep and windows.

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
        if not isinstance(agg, Aggregate) or not agg.reductions:
            raise ArgumentError(
                f"aggs[{name!r}] cannot roll from one event to the next.",
                "count, total, mean, smallest, largest, first, last.",
                f"hopping(events, size, hop, aggs={{{name!r}: ...}}) for other aggregates.",
            )
    require(rows.events, kept, "keep")
    require_free([WINDOW, *rows.by, *rows.aggs], kept, "keep")


def _rolled(
    groups: DataFrame, rows: Grouping, laid: Layout, kept: list[str], window: Sliding
) -> DataFrame:
    event = _event(groups)
    operations = [
        part.operation
        for agg in rows.aggs.values()
        if isinstance(agg, Aggregate)
        for _, part in agg.reductions
    ]
    rolling = Rolling(
        width=microseconds(window.size),
        slice=laid.slice,
        outer=len(laid.outer),
        inner=len(laid.inner),
        kept=len(kept),
        operations=tuple(operations),
        windows=window.windows,
    )
    schema = StructType(
        [
            groups.schema[WINDOW],
            *[groups.schema[key(at)] for at in laid.outer],
            *[StructField(field.name, field.dataType) for field in event.fields[1:]],
        ]
    )

    def roll(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from rolling.roll(batch)

    return groups.mapInArrow(roll, schema)


def _event(groups: DataFrame) -> StructType:
    """Return the type of the events that the groups hold, a list for each slice."""
    lists = groups.schema[EVENTS].dataType
    found = lists.elementType.elementType  # type: ignore[attr-defined]
    if not isinstance(found, StructType):
        raise TypeError(f"collected events are {lists.simpleString()}")
    return found


def _answers(rows: Grouping, rolled: DataFrame, kept: list[str]) -> DataFrame:
    answers = []
    for index, (name, agg) in enumerate(rows.aggs.items()):
        if isinstance(agg, Aggregate):
            values = {field: quoted(f"{index}:{field}") for field, _ in agg.reductions}
            answers.append(agg.finish(agg.made_of(values)).alias(name))
    keys = [quoted(key(at)).alias(name) for at, name in enumerate(rows.by)]
    bears = [quoted(f"keep:{name}").alias(name) for name in kept]
    return rolled.select(quoted(WINDOW), *keys, *bears, *answers)
