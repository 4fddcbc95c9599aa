"""Sliding windows: for each event, the preceding events of its key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from ..aggregates import Aggregate
from ..columns import (
    quoted_column,
    require_choice,
    require_column_names,
    require_columns,
    require_no_name_clash,
)
from ..durations import microseconds
from ..errors import ArgumentError
from ._grouping import WINDOW, FixedGrid, Grouping
from ._sliding_kernel import (
    EVENTS,
    SliceLayout,
    SlidingKernel,
    WindowSelection,
    collect_slices,
    key_column_name,
    slice_layout,
    slice_length,
    with_previous_slices,
)
from .window import Window


@dataclass(frozen=True)
class Sliding(Window):
    """For each event, the window [t - size, t], both ends inclusive; see the function `sliding`.

    Raises ArgumentError, ColumnError and ColumnTypeError at construction.

    >>> Sliding("5 minutes").lookback
    datetime.timedelta(seconds=300)
    """

    plan_name: ClassVar[str] = "sliding"
    size: str | timedelta
    columns: str | Sequence[str] = ()
    windows: WindowSelection = "each"

    def __post_init__(self) -> None:
        microseconds(self.size, "size")
        extra_columns = require_column_names(self.columns, "columns")
        require_choice(self.windows, "windows", WindowSelection)
        if extra_columns and self.windows == "all":
            raise ArgumentError(
                "invalid columns: not available with windows='all', where a row is not an event",
                "columns with windows='each'",
            )

    def _aggregate(self, rows: Grouping) -> DataFrame:
        extra_columns = require_column_names(self.columns, "columns")
        _require_sliding_aggregates(rows, extra_columns)
        layout = slice_layout(rows, microseconds(self.size))
        slices = with_previous_slices(collect_slices(rows, layout, extra_columns), layout)
        windows = self._compute_windows(slices, rows, layout, len(extra_columns))
        return _select_results(rows, windows, extra_columns)

    def _compute_windows(
        self, groups: DataFrame, rows: Grouping, layout: SliceLayout, extra_columns: int
    ) -> DataFrame:
        aggs = (rows.mergeable_aggregates or {}).values()
        operations = tuple(part.operation for agg in aggs for _, part in agg.reductions)
        width = microseconds(self.size)
        kernel = SlidingKernel(width, layout, extra_columns, operations, self.windows)
        # A group has a list of events for each slice.
        lists_type = groups.schema[EVENTS].dataType
        event_fields = lists_type.elementType.elementType.fields  # type: ignore[attr-defined]
        schema = StructType(
            [
                groups.schema[WINDOW],
                *[groups.schema[key_column_name(index)] for index in layout.outer],
                *[StructField(field.name, field.dataType) for field in event_fields[1:]],
            ]
        )

        def compute(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from kernel.compute(batch)

        return groups.mapInArrow(compute, schema)

    def late_at(self, time: Column) -> Column:
        """Return the end of the slice, an eighth of the size, that contains an instant."""
        return FixedGrid(slice_length(microseconds(self.size)), 0).window(time)["end"]

    def merge_rule(self, by: str | Sequence[str]) -> None:
        """Return None: late rows cannot merge into emitted windows."""
        return

    @property
    def lookback(self) -> timedelta:
        """How far before an event the other events of its window can be."""
        return timedelta(microseconds=microseconds(self.size))


def sliding(
    events: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate],
    time: str = "event_time",
    columns: str | Sequence[str] = (),
    windows: WindowSelection = "each",
) -> DataFrame:
    """Aggregate, for each event, the events of its key in [t - size, t], both ends inclusive.

    `windows="each"` returns a row for each event; events with the same time have equal windows.
    `windows="all"` returns a row for each distinct set of events within `size` of each other. In
    addition to the windows that end at an event, these are windows that start a microsecond after
    an event and contain a different set. Events with a null time are in no window; a null key is a
    separate key.

    A stream collects events in slices of an eighth of the size. The aggregation runs in numpy over
    a closed slice and the eight slices before it. Its cost is O(n log n) in the events of these
    slices.

    State on a stream: the input columns and `columns` of the events of open slices and of earlier
    slices within reach of their windows, in total four to five sizes. A slice has 64 buckets by
    key; a bucket with its earlier slices is one row of state and must be smaller than 2 GB. A row
    is late, and in no window, once its slice has closed. A window is emitted once, when the
    watermark passes the end of the slice in which it ends; the output mode must be "append". The
    result has no watermark. Changing size, by, aggs, columns or windows requires a new checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        size: the length of a window.
        by: the key columns.
        aggs: the aggregate of each result column: sum, count, avg, min, max, first, last.
        time: the event-time column, a timestamp.
        columns: additional columns of the event; with `windows="each"` only.
        windows: which windows to return, "each" or "all".

    Returns:
        `window` (struct of start and end, both inclusive), the by columns, `columns`, the
        aggregates.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: RANGE frames of SQL:2003; `windows="all"` as Kafka Streams' sliding windows (KIP-450).

    >>> from tidegate.aggregates import count
    >>> sliding(clicks, "5 minutes", by="user", aggs={"clicks": count()}, columns="page").columns
    ['window', 'user', 'page', 'clicks']
    """
    window = Sliding(size, columns, windows)
    return window.aggregate(events, by=by, aggs=aggs, time=time)


def _require_sliding_aggregates(rows: Grouping, extra_columns: list[str]) -> None:
    for name, agg in rows.aggs.items():
        if not isinstance(agg, Aggregate) or not agg.reductions:
            raise ArgumentError(
                f"invalid aggs: {name!r} is not available in sliding windows",
                "count, sum, avg, min, max, first, last",
                f"hopping(events, size, hop, aggs={{{name!r}: ...}}) for other aggregates",
            )
    require_columns(rows.events, extra_columns, "columns")
    require_no_name_clash([WINDOW, *rows.by, *rows.aggs], extra_columns, "columns")


def _select_results(rows: Grouping, windows: DataFrame, extra_columns: list[str]) -> DataFrame:
    partial_columns = {}
    for index, (name, agg) in enumerate((rows.mergeable_aggregates or {}).items()):
        values = {field: quoted_column(f"{index}:{field}") for field, _ in agg.reductions}
        partial_columns[name] = (agg, agg.partial_of_values(values))
    results = rows.result_columns(partial_columns)
    keys = [quoted_column(key_column_name(i)).alias(name) for i, name in enumerate(rows.by)]
    extras = [quoted_column(f"keep:{name}").alias(name) for name in extra_columns]
    return windows.select(quoted_column(WINDOW), *keys, *extras, *results)
