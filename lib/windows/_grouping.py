"""Grouping of rows by window and key: validation of arguments, aligned windows, and panes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NumericType,
    StructType,
    TimestampType,
    VariantType,
)

from ..aggregates import (
    OVERFLOW,
    Aggregate,
    for_partials,
    merge_columns,
    overflow_names,
    partials,
)
from ..columns import (
    WATERMARK_KEY,
    add_micros,
    closest_column,
    column_type,
    first_line,
    quoted_column,
    require_column_names,
    require_columns,
    require_dataframe,
    require_event_time,
    require_no_name_clash,
)
from ..durations import duration_text, microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError

WINDOW = "window"
"""The window column of a result."""
SPAN = "tidegate:window"
ROWS = "tidegate:rows"
BUCKETS = 64
"""The number of buckets in which a stream stores the rows of a window."""
MAX_WINDOWS_PER_EVENT = 20_000
"""More results per event than any machine writes as fast as events arrive."""
_BUCKET = "tidegate:bucket"
_WINDOWS = "tidegate:windows"
_NESTED_TIME = "tidegate:time"


@dataclass(frozen=True)
class Grouping:
    """Validated arguments of a window transform.

    names_overflows: whether result rows have the column OVERFLOW, if a result can overflow.
    """

    events: DataFrame
    time: str
    by: tuple[str, ...]
    aggs: dict[str, Aggregate | Column]
    names_overflows: bool = False

    @property
    def time_column(self) -> Column:
        return quoted_column(self.time)

    @property
    def keys(self) -> list[Column]:
        return [quoted_column(name) for name in self.by]

    @property
    def group_columns(self) -> list[Column]:
        # Spark allows one group column with a watermark, which is the window; a copy has none.
        copied_time = F.timestamp_micros(F.unix_micros(self.time_column)).alias(self.time)
        return [copied_time if name == self.time else quoted_column(name) for name in self.by]

    @property
    def mergeable_aggregates(self) -> dict[str, Aggregate] | None:
        aggregates = {name: agg for name, agg in self.aggs.items() if isinstance(agg, Aggregate)}
        return aggregates if len(aggregates) == len(self.aggs) else None

    def aggregate_by(
        self, window: Column, *extra_keys: Column, leading_keys: Sequence[Column] = ()
    ) -> DataFrame:
        """Aggregate the rows of each window and key.

        `extra_keys` are additional group columns, which are not in the result. `leading_keys` are
        group columns before the keys, must be functions of the keys, and are not in the result.
        """
        partial_columns = {
            name: (agg, agg.partial(self.time_column))
            for name, agg in self.aggs.items()
            if isinstance(agg, Aggregate)
        }
        others = {name: agg for name, agg in self.aggs.items() if isinstance(agg, Column)}
        results = self.result_columns(partial_columns, others)
        try:
            groups = [window.alias(WINDOW), *leading_keys, *self.group_columns, *extra_keys]
            rows = self.events.groupBy(*groups).agg(*results)
        except AnalysisException as fault:
            raise ColumnError(
                f"invalid aggs: {first_line(fault)}",
                "an Aggregate such as count(), or a Spark aggregate expression such as "
                "F.stddev('ms')",
                closest_column(fault, self.events.columns),
            ) from fault
        return self._select_results(rows)

    def result_columns(
        self,
        partial_columns: Mapping[str, tuple[Aggregate, Column]],
        others: Mapping[str, Column] | None = None,
    ) -> list[Column]:
        """Return the results, in the order of the aggregates, and OVERFLOW if it is asked for.

        partial_columns: the aggregate and the partial of each result. others: other results.
        """
        results = {name: agg.finish(value) for name, (agg, value) in partial_columns.items()}
        results |= others or {}
        columns = [results[name].alias(name) for name in self.aggs]
        overflow = overflow_names(partial_columns) if self.names_overflows else None
        return columns if overflow is None else [*columns, overflow.alias(OVERFLOW)]

    def _select_results(self, rows: DataFrame) -> DataFrame:
        added = [name for name in rows.columns if name == OVERFLOW]
        names = [*self.aggs, *added]
        return rows.select(quoted_column(WINDOW), *self.keys, *map(quoted_column, names))

    def aggregate_by_span(self, window: Column) -> DataFrame:
        """Aggregate the rows of each key and window, a struct of start and end."""
        spans = with_span(self.events.where(self.time_column.isNotNull()), self.time, window)
        return replace(self, events=spans).aggregate_by(quoted_column(SPAN))

    def collect_rows(self, window: Column, *extra_columns: str) -> DataFrame:
        """Collect the rows of each window in the column ROWS; `explode_rows` reverses this.

        Rows have the columns that keys and aggregates read, and `extra_columns`. They are stored in
        BUCKETS by key, each of them one row of state, since one row of state per event costs more.
        """
        rows = self.events.where(self.time_column.isNotNull())
        bucket = F.pmod(F.xxhash64(*self.keys), F.lit(BUCKETS)) if self.by else F.lit(0)
        row = F.struct(*map(quoted_column, dict.fromkeys([*self._columns_read, *extra_columns])))
        spans = with_span(rows.withColumn(_BUCKET, bucket.cast("int")), self.time, window)
        grouped = spans.groupBy(quoted_column(SPAN).alias(WINDOW), quoted_column(_BUCKET))
        return grouped.agg(F.collect_list(row).alias(ROWS))

    @property
    def _columns_read(self) -> list[str]:
        """The columns that keys and aggregates read; all columns if one input is an expression."""
        aggs = self.mergeable_aggregates
        values = [value for agg in (aggs or {}).values() for value, _ in agg.inputs]
        if aggs is None or not all(isinstance(value, str) for value in values):
            return self.events.columns
        return [name for name in self.events.columns if name in {self.time, *self.by, *values}]

    def as_partials(self) -> Grouping:
        """Return the same grouping without `finish` of its aggregates, which must all merge."""
        return replace(self, aggs=dict(partials(self.mergeable_aggregates or {})))

    def merge_windows(self, partial_rows: DataFrame, window: Column) -> DataFrame:
        """Merge the partials of each window and key, and finish them."""
        aggs = for_partials(partial_rows, self.mergeable_aggregates or {})
        merges = merge_columns(partial_rows, aggs)
        merged_columns = self.result_columns({name: (aggs[name], merges[name]) for name in merges})
        rows = partial_rows.groupBy(window.alias(WINDOW), *self.keys).agg(*merged_columns)
        return self._select_results(rows)


def explode_rows(frame: DataFrame) -> DataFrame:
    """Return the rows that `Grouping.collect_rows` collected, each with the column SPAN."""
    rows = frame.select(quoted_column(SPAN), F.explode(ROWS).alias(ROWS))
    return rows.select(quoted_column(SPAN), f"`{ROWS}`.*")


def with_span(frame: DataFrame, time: str, window: Column) -> DataFrame:
    """Add a window column SPAN that Spark closes by the watermark of `time`.

    Spark recognizes a window by the metadata of its column and uses its second field as the end.
    """
    metadata: dict[str, Any] = {"spark.timeWindow": True}
    time_metadata = frame.schema[time].metadata or {}
    if WATERMARK_KEY in time_metadata:
        metadata[WATERMARK_KEY] = time_metadata[WATERMARK_KEY]
    return frame.withColumn(SPAN, window).withMetadata(SPAN, metadata)


def build_grouping(
    events: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate | Column], time: str
) -> Grouping:
    keys = require_column_names(by)
    events, time = _with_nested_time(events, time)
    require_event_time(events, time)
    require_columns(events, keys)
    require_aggregates(aggs)
    typed_aggs: dict[str, Aggregate | Column] = {}
    for name, agg in aggs.items():
        if not isinstance(agg, Aggregate | Column):
            raise ColumnTypeError(
                f"invalid aggs: {name!r} is {agg!r} ({type(agg).__name__})",
                "an Aggregate such as count(), or a Spark aggregate expression",
                f"aggs={{{name!r}: count()}}",
            )
        typed_aggs[name] = _for_inputs(events, name, agg) if isinstance(agg, Aggregate) else agg
    require_no_name_clash([WINDOW], keys, "by")
    require_no_name_clash([WINDOW, *keys], aggs)
    return Grouping(events, time, tuple(keys), typed_aggs)


def _with_nested_time(events: DataFrame, time: str) -> tuple[DataFrame, str]:
    """Return events with a nested time, such as window.start of a result, as a column; its name."""
    require_dataframe(events)
    if not isinstance(time, str) or "." not in time or time in events.columns:
        return events, time
    struct = time.partition(".")[0]
    require_columns(events, [struct], "time")
    if events.isStreaming:
        raise ArgumentError(
            f"invalid time: {time!r}, a field, on a stream",
            "a column with a watermark; a field of a struct only on a batch",
            f"the table of these rows, read as a batch; or withColumn('at', F.col({time!r})) and "
            "withWatermark('at', '10 seconds')",
        )
    data_type = column_type(events, F.col(time), "time")
    if not isinstance(data_type, TimestampType):
        raise ColumnTypeError(
            f"invalid time: {time!r} has type {data_type.simpleString()}",
            "a timestamp with time zone",
            f"time='{struct}.start', for the result of a window",
        )
    return events.withColumn(_NESTED_TIME, F.col(time)), _NESTED_TIME


def require_aggregates(aggs: object) -> None:
    if not isinstance(aggs, Mapping) or not aggs:
        raise ArgumentError(
            f"invalid aggs: {aggs!r}",
            "a mapping with at least one aggregate, by result column",
            "aggs={'n': count()}",
        )


def require_window_limit(size: int, step: int, label: str, value: object) -> int:
    """Return the maximum number of windows that contain an event; refuse more than 20,000.

    size, step: in microseconds. `label` and `value` are those of the step, for the error.
    """
    windows_per_event = -(-size // step)
    if windows_per_event > MAX_WINDOWS_PER_EVENT:
        smallest = duration_text(-(-size // MAX_WINDOWS_PER_EVENT))
        raise ArgumentError(
            f"invalid {label}: {value!r}; each event would be in {windows_per_event:,} windows",
            f"at most {MAX_WINDOWS_PER_EVENT:,} windows per event",
            f"{label}='{smallest}', or sliding windows, which have one result per event",
        )
    return windows_per_event


def _for_inputs(events: DataFrame, name: str, agg: Aggregate) -> Aggregate:
    """Return the aggregate for the types of its inputs, which must have the required kinds."""
    typed_agg = agg
    for value, value_kind in agg.inputs:
        data_type = column_type(events, value, f"aggs[{name!r}]")
        is_number = isinstance(data_type, NumericType)
        if not {"number": is_number, "ordered": _is_ordered(data_type)}.get(value_kind, True):
            raise ColumnTypeError(
                f"invalid aggs: the input of {name!r} has type {data_type.simpleString()}",
                "a number" if value_kind == "number" else "a type with an order",
                "cast the column with withColumn before the transform",
            )
        typed_agg = typed_agg.for_values(data_type)
    return typed_agg


def _is_ordered(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return all(_is_ordered(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _is_ordered(data_type.elementType)
    return not isinstance(data_type, MapType | VariantType)


def floor_time(time: Column, width: int, start: int = 0) -> Column:
    """Return the last multiple of `width` microseconds, counted from `start`, at or before a time.

    `start` is in microseconds since 1970-01-01.
    """
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros - F.lit(start), F.lit(width)))


def as_window(start: Column, end: Column) -> Column:
    return F.struct(start.alias("start"), end.alias("end"))


def alignment_micros(offset: str | timedelta, width: int) -> int:
    return microseconds(offset, "offset", min_value=-(10**18)) % width


@dataclass(frozen=True)
class FixedGrid:
    """Contiguous windows of `width` microseconds, aligned to `start` since 1970-01-01."""

    width: int
    start: int

    @property
    def max_length(self) -> int:
        return self.width

    def window(self, time: Column) -> Column:
        """Return the window that contains an instant: a struct of start and exclusive end."""
        begin = floor_time(time, self.width, self.start)
        return as_window(begin, add_micros(begin, self.width))


class PaneLayout(Protocol):
    """The mapping from instants to panes and windows."""

    def with_pane_inputs(self, frame: DataFrame, instant: Column) -> DataFrame:
        """Add columns that the other methods read, so that they are computed once."""

    def pane(self, instant: Column) -> Column:
        """Return the pane that contains an instant: its start, and the end of its first window."""

    def windows(self, instant: Column) -> Column:
        """Return all windows that contain an instant, as an array of structs of start and end."""


def aggregate_by_panes(rows: Grouping, layout: PaneLayout) -> DataFrame:
    """Aggregate each row once, in its pane, then merge the panes of each window.

    A pane closes with its first window, and a row that arrives later is in none of its windows.
    Copies of a row for each window would be dropped from closed windows only, and results would
    depend on batch boundaries.

    Aggregates that do not merge read the rows: a stream stores them until their pane closes; a
    batch, in which no row is late, copies them into their windows at once.
    """
    prepared = replace(rows, events=layout.with_pane_inputs(rows.events, rows.time_column))
    pane = layout.pane(rows.time_column)
    if rows.mergeable_aggregates is not None:
        panes = prepared.as_partials().aggregate_by_span(pane)
        return rows.merge_windows(_explode_windows(panes, layout), quoted_column(SPAN))
    if rows.events.isStreaming:
        events = explode_rows(_explode_windows(prepared.collect_rows(pane), layout))
    else:
        timed = rows.events.where(rows.time_column.isNotNull())
        events = _copy_into_windows(timed, rows.time, rows.time_column, layout)
    return replace(rows, events=events).aggregate_by(quoted_column(SPAN))


def _explode_windows(panes: DataFrame, layout: PaneLayout) -> DataFrame:
    return _copy_into_windows(panes, WINDOW, quoted_column(WINDOW)["start"], layout)


def _copy_into_windows(
    frame: DataFrame, time: str, instant: Column, layout: PaneLayout
) -> DataFrame:
    """Return a copy of each row for each window that contains `instant`, in the column SPAN.

    `time` is the name of the column with the watermark.
    """
    with_inputs = layout.with_pane_inputs(frame, instant)
    copies = with_inputs.withColumn(_WINDOWS, F.explode(layout.windows(instant)))
    return with_span(copies, time, quoted_column(_WINDOWS)).drop(_WINDOWS)
