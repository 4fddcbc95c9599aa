"""Comparison of a transform's results as a stream and as a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted_column
from ..commit.batch import UNIX_EPOCH
from ..errors import ArgumentError
from ..frame_diff import FrameDiff, diff_frames
from .driver import (
    DEFAULT_INPUT,
    DriverInput,
    Rows,
    StreamDriver,
    build_driver_inputs,
    watermarked_inputs,
)

_FINAL_ADVANCE = timedelta(days=3_650)


def compare_stream_and_batch(
    spark: SparkSession,
    schema: str | StructType | Mapping[str, str | StructType],
    transform: Callable[..., DataFrame],
    batches: Iterable[Rows | Mapping[str, Rows]],
    *,
    watermark_delay: str | timedelta | Mapping[str, str | timedelta | None] | None,
    time: str | Mapping[str, str] = "event_time",
    keys: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> FrameDiff:
    """Run a transform as a stream of batches, and compare the result with a batch over all rows.

    The expected result is that of a batch over all rows that are not late. For a transform with
    `late_at`, such as `WindowAggregation`, the comparison excludes its late rows and counts them as
    `late_rows`. A plain function has no `late_at`: a row that Spark drops behind the watermark is a
    difference. After the last batch the watermark advances until all results are emitted.

    Args:
        spark: a classic session.
        schema: the columns of the events, as for `StreamDriver`.
        transform: a function, or a value such as `WindowAggregation` or `IntervalJoin`.
        batches: the batches in order: rows, or for several inputs rows by name.
        watermark_delay: as for `StreamDriver`.
        time: the event-time column, as for `StreamDriver`.
        keys: columns that identify a result, to distinguish changed from missing rows.
        ignore: columns to exclude from the comparison, such as estimates.

    Returns:
        the differences; `is_empty` is true if there are none.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling, WindowAggregation
    >>> views = WindowAggregation(Tumbling("1 minute"), aggs={"n": count()})
    >>> at = lambda second: datetime(2026, 1, 1, 10, 3, second, tzinfo=UTC)
    >>> batches = [[(at(1),), (at(59),)], [(at(2),)]]
    >>> schema = "event_time timestamp"
    >>> compare_stream_and_batch(spark, schema, views, batches, watermark_delay="1 minute").is_empty
    True
    """
    inputs = build_driver_inputs(schema, watermark_delay, time)
    named_batches = [_by_name(batch, inputs) for batch in batches]
    if not named_batches:
        raise ArgumentError("invalid batches: empty", "at least one batch of rows")
    fed_rows = _FedRows(spark, inputs, getattr(transform, "late_at", None))
    driver = StreamDriver(spark, schema, transform, watermark_delay=watermark_delay, time=time)
    with driver as stream:
        for rows in named_batches:
            frames = fed_rows.add_batch(rows)
            if isinstance(schema, Mapping):
                stream.feed(**frames)
            else:
                stream.feed(frames[DEFAULT_INPUT])
        max_event_time = fed_rows.max_event_time()
        if max_event_time is not None:
            stream.advance_to(max_event_time + _FINAL_ADVANCE)
        expected = transform(*fed_rows.on_time_rows())
        actual, late = stream.results(), fed_rows.late_count
        return diff_frames(expected, actual, keys=keys, ignore=ignore, late_rows=late)


class _FedRows:
    """The fed rows, their watermark, and the rows that were not late."""

    def __init__(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DriverInput],
        late_at: Callable[[Column], Column | None] | None,
    ) -> None:
        self._spark = spark
        self._inputs = inputs
        self._late_at = late_at
        self._max_event_times: dict[str, int] = {}
        self._on_time_frames: dict[str, list[DataFrame]] = {name: [] for name in inputs}
        self.late_count = 0

    def add_batch(self, rows: Mapping[str, Rows]) -> dict[str, DataFrame]:
        watermark = self._watermark()
        frames = {}
        for name, input_rows in rows.items():
            driver_input = self._inputs[name]
            frames[name] = driver_input.to_frame(self._spark, input_rows, f"batches, {name}")
            is_late = self._is_late(driver_input, watermark)
            self._on_time_frames[name].append(frames[name].where(~is_late))
            if driver_input.watermark_delay is None:
                continue
            latest = F.max(F.unix_micros(quoted_column(driver_input.time)))
            max_event_time, late_count = frames[name].agg(latest, F.count_if(is_late)).collect()[0]
            self.late_count += late_count
            if max_event_time is not None:
                previous_max = self._max_event_times.get(name, max_event_time)
                self._max_event_times[name] = max(max_event_time, previous_max)
        return frames

    def max_event_time(self) -> datetime | None:
        max_micros = max(self._max_event_times.values(), default=None)
        return None if max_micros is None else UNIX_EPOCH + timedelta(microseconds=max_micros)

    def on_time_rows(self) -> list[DataFrame]:
        return [
            reduce(DataFrame.unionByName, parts)
            if parts
            else self._spark.createDataFrame([], self._inputs[name].schema)
            for name, parts in self._on_time_frames.items()
        ]

    def _watermark(self) -> int | None:
        """Return the watermark of the next batch, in microseconds and rounded to milliseconds."""
        watermarked = watermarked_inputs(self._inputs)
        if not watermarked or self._max_event_times.keys() != watermarked.keys():
            return None
        watermarks = [
            self._max_event_times[name] // 1000 - (driver_input.watermark_delay or 0) // 1000
            for name, driver_input in watermarked.items()
        ]
        return max(0, min(watermarks)) * 1000

    def _is_late(self, driver_input: DriverInput, watermark: int | None) -> Column:
        late_at = None if driver_input.watermark_delay is None else self._late_at
        late_from = None if late_at is None else late_at(quoted_column(driver_input.time))
        if late_from is None:
            return F.lit(False)
        # Spark's first watermark is 0.
        watermark_time = F.timestamp_micros(F.lit(watermark or 0))
        return F.coalesce(late_from <= watermark_time, F.lit(False))


def _by_name(rows: Any, inputs: Mapping[str, DriverInput]) -> dict[str, Rows]:
    """Return the rows of a batch by input name."""
    if list(inputs) == [DEFAULT_INPUT] and not isinstance(rows, Mapping):
        return {DEFAULT_INPUT: rows}
    if not isinstance(rows, Mapping) or not rows or not rows.keys() <= inputs.keys():
        raise ArgumentError(
            f"invalid batch: {type(rows).__name__}"
            f"{' of ' + ', '.join(map(str, rows)) if isinstance(rows, Mapping) else ''}",
            f"rows by input name: {', '.join(inputs)}",
        )
    return dict(rows)
