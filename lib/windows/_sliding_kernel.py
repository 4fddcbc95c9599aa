"""The numpy kernel of sliding windows: collecting events in slices, and aggregating their windows.

Aggregation over many overlapping ranges of a sorted column costs O(n log n) for any range length.
The sum of integers is the difference of two running totals, exact even if they overflow. The sum of
doubles adds blocks of 1, 2, 4, ... values, one for each binary digit of the length; a minimum takes
the two largest blocks that cover the range. Neither subtracts, so that a NaN or an infinity affects
only the ranges that contain it. Source: sparse tables of Bender and Farach-Colton, The LCA Problem
Revisited (2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, FractionalType, StructType

from ..aggregates import Operation
from ..arrow_kernels import ROWS_PER_BATCH, Flags, Ints, flatten_groups, key_codes, take_rows
from ..columns import add_micros, is_byte_comparable, quoted_column
from ..durations import interval_text
from ..errors import ColumnTypeError
from ._grouping import BUCKETS, SPAN, WINDOW, Grouping, as_window, with_span

WindowSelection = Literal["each", "all"]
Numbers = np.ndarray[Any, np.dtype[Any]]

SLICES = 8
"""The number of slices of a window; a stream emits windows slice by slice."""
EVENTS = "tidegate:events"
_BEGIN = "tidegate:begin"
_BUCKET = "tidegate:bucket"

_DECIMAL_DIGITS = 4


def pane_length(width: int) -> int:
    """Return the length of the panes of a sliding window: its width plus its inclusive end."""
    return width + 1


def slice_length(size: int, slices: int = SLICES) -> int:
    """Return the length of a slice; `slices` of them are at least as long as a window."""
    return -(-pane_length(size) // slices)


@dataclass(frozen=True)
class SliceLayout:
    """How events are collected by slices of time and by keys.

    slice: the length of a slice in microseconds.
    slices: the number of slices within reach of a window.
    inner: keys that are stored in the events, so that a group has many keys; few large rows of
        state are faster than many small ones.
    outer: keys that are group columns.
    """

    slice: int
    slices: int
    inner: tuple[int, ...]
    outer: tuple[int, ...]

    @property
    def span(self) -> int:
        """The length of a slice and the slices within reach of its windows."""
        return (self.slices + 1) * self.slice


def slice_layout(rows: Grouping, size: int) -> SliceLayout:
    keys = range(len(rows.by))
    if not rows.events.isStreaming:
        # A batch has no state, so its slices are as long as a window.
        return SliceLayout(slice_length(size, 1), 1, (), tuple(keys))
    types = [rows.events.schema[name].dataType for name in rows.by]
    inner = tuple(index for index in keys if is_byte_comparable(types[index]))
    outer = tuple(index for index in keys if index not in inner)
    return SliceLayout(slice_length(size), SLICES, inner, outer)


def collect_slices(rows: Grouping, layout: SliceLayout, extra_columns: Sequence[str]) -> DataFrame:
    """Collect the events of each slice and bucket of keys in the column EVENTS."""
    inner = [quoted_column(rows.by[index]).alias(key_column_name(index)) for index in layout.inner]
    extras = [quoted_column(name).alias(f"keep:{name}") for name in extra_columns]
    event = F.struct(rows.time_column.alias("time"), *inner, *extras, *_aggregate_inputs(rows))
    own_slice = F.window(rows.time_column, interval_text(layout.slice)).alias(WINDOW)
    # Keys have internal names, so that they cannot clash with other columns.
    outer = [rows.group_columns[index].alias(key_column_name(index)) for index in layout.outer]
    if layout.inner:
        key_hash = F.xxhash64(*[quoted_column(rows.by[index]) for index in layout.inner])
        outer.append(F.pmod(key_hash, F.lit(BUCKETS)).cast("int").alias(_BUCKET))
    return rows.events.groupBy(own_slice, *outer).agg(F.collect_list(event).alias(EVENTS))


def _aggregate_inputs(rows: Grouping) -> list[Column]:
    """Return the input of each reduction, named by the index of its aggregate and its field."""
    return [
        _widen_sum_type(rows.events, part.lift(rows.time_column), part.operation).alias(
            f"{index}:{name}"
        )
        for index, agg in enumerate((rows.mergeable_aggregates or {}).values())
        for name, part in agg.reductions
    ]


def with_previous_slices(slices: DataFrame, layout: SliceLayout) -> DataFrame:
    """Combine each slice with the earlier slices within reach of its windows.

    EVENTS then has a list for each of these slices.
    """
    start = F.unix_micros(quoted_column(WINDOW)["start"])
    starts = [start - F.lit(number * layout.slice) for number in range(layout.slices + 1)]
    copies = slices.select("*", F.explode(F.array(*starts)).alias(_BEGIN))
    begin = F.timestamp_micros(quoted_column(_BEGIN))
    spans = with_span(copies, WINDOW, as_window(begin, add_micros(begin, layout.span)))
    parts = [quoted_column(name) for name in slices.columns if name not in (WINDOW, EVENTS)]
    grouped = spans.groupBy(quoted_column(SPAN).alias(WINDOW), *parts)
    collected = grouped.agg(F.collect_list(EVENTS).alias(EVENTS))
    keys = [quoted_column(key_column_name(index)) for index in layout.outer]
    return collected.select(quoted_column(WINDOW), *keys, quoted_column(EVENTS))


def key_column_name(index: int) -> str:
    return f"key:{index}"


def _widen_sum_type(events: DataFrame, value: Column, operation: str) -> Column:
    data_type = events.select(value).schema[0].dataType
    if operation != "sum":
        _require_atomic(data_type)
        return value
    if isinstance(data_type, DecimalType):
        return value.cast(DecimalType(min(38, data_type.precision + 10), data_type.scale))
    return value.cast("double" if isinstance(data_type, FractionalType) else "bigint")


def _require_atomic(data_type: DataType) -> None:
    types = [data_type]
    if isinstance(data_type, StructType):
        types = [field.dataType for field in data_type]
    if any(isinstance(each, StructType | ArrayType) for each in types):
        raise ColumnTypeError(
            f"invalid aggs: min and max of type {data_type.simpleString()} in sliding windows",
            "numbers, strings, dates, timestamps, booleans or binary values",
        )


@dataclass(frozen=True)
class Spans:
    """Windows over events that are sorted by key and time.

    first, stop: the range of events of a window, stop exclusive.
    start: the start of a window, in microseconds since 1970.
    event: the event at which a window ends, or after which it starts.
    """

    first: Ints
    stop: Ints
    start: Ints
    event: Ints

    def concat(self, other: Spans) -> Spans:
        fields = zip(vars(self).values(), vars(other).values(), strict=True)
        return Spans(*map(np.concatenate, fields))


@dataclass(frozen=True)
class EventArrays:
    """Events of several groups and keys, sorted by group, key and time.

    time: in microseconds since 1970.
    number: the sort key; each group and key has a range of numbers, one per instant.
    instants: all distinct times, ascending.
    last: the start of the last slice of the group of each event.
    """

    time: Ints
    number: Ints
    instants: Ints
    last: Ints

    def index_at_or_after(self, event: Ints, time: Ints) -> Ints:
        stride = len(self.instants) + 1
        rank = np.searchsorted(self.instants, time)
        return np.searchsorted(self.number, self.number[event] // stride * stride + rank)

    def index_after(self, event: Ints, time: Ints) -> Ints:
        return self.index_at_or_after(event, time + 1)


@dataclass(frozen=True)
class SlidingKernel:
    """Computes windows of `width` microseconds over rows (span, outer keys..., events).

    The span of a row is its last slice and the slices within reach of its windows. `events` has
    lists of structs (time, inner keys..., extra columns..., values...), in any order, one value for
    each of `operations`. The result has the windows that end in the last slice.
    """

    width: int
    layout: SliceLayout
    extra_columns: int
    operations: tuple[Operation, ...]
    windows: WindowSelection

    def compute(self, groups: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the windows of the groups in a batch: window, keys, extra columns, values."""
        results = self._compute_batch(groups)
        for start in range(0, results.num_rows, ROWS_PER_BATCH):
            yield results.slice(start, ROWS_PER_BATCH)

    def _compute_batch(self, groups: pa.RecordBatch) -> pa.RecordBatch:
        window = groups.column(0)
        events_at = 1 + len(self.layout.outer)
        group, slice_events = flatten_groups(groups.column(events_at))
        times, *fields = slice_events.flatten()
        inner_keys = len(self.layout.inner)
        values_at = inner_keys + self.extra_columns

        last = _micros(window.field(1))[group] - self.layout.slice
        codes = key_codes(group, fields[:inner_keys])
        order, events = _sort_events(_micros(times), codes, last)
        spans = self._spans(events)

        event = order[spans.event]
        edges = [
            pa.array(micros).cast(window.type.field(0).type)
            for micros in (spans.start, spans.start + self.width)
        ]
        values = zip(take_rows(fields[values_at:], order), self.operations, strict=True)
        length = spans.stop - spans.first
        columns = [
            pa.StructArray.from_arrays(edges, fields=list(window.type)),
            *take_rows(groups.columns[1:events_at], group[event]),
            *take_rows(fields[:values_at], event),
            *[aggregate_ranges(part, spans.first, length, operation) for part, operation in values],
        ]
        field_names = [field.name for field in slice_events.type][1:]
        names = [*groups.schema.names[:events_at], *field_names]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _spans(self, events: EventArrays) -> Spans:
        if self.windows == "each":
            return self._spans_ending_at(events, np.flatnonzero(events.time >= events.last))
        # Events with the same time share a window, which the last of them represents.
        is_last = np.diff(events.number, append=-1) != 0
        begin_times = events.time + pane_length(self.width)
        in_slice = (begin_times >= events.last) & (begin_times < events.last + self.layout.slice)
        ending = np.flatnonzero(is_last & (events.time >= events.last))
        starting = np.flatnonzero(is_last & in_slice)
        ending_spans = self._spans_ending_at(events, ending)
        return ending_spans.concat(self._spans_starting_after(events, starting))

    def _spans_ending_at(self, events: EventArrays, event: Ints) -> Spans:
        """Return the windows that end at an event, which they contain."""
        time = events.time[event]
        first = events.index_at_or_after(event, time - self.width)
        return Spans(first, events.index_after(event, time), time - self.width, event)

    def _spans_starting_after(self, events: EventArrays, event: Ints) -> Spans:
        """Return the windows that start just after an event and end in the last slice."""
        time = events.time[event]
        end = time + pane_length(self.width)
        first = events.index_after(event, time)
        stop = events.index_after(event, end)
        # A window with an event exactly at its end equals the window that ends at this event.
        is_new = (stop > first) & (events.time[stop - 1] != end)
        return Spans(first[is_new], stop[is_new], time[is_new] + 1, event[is_new])


def _sort_events(time: Ints, code: Ints, last: Ints) -> tuple[Ints, EventArrays]:
    """Return the order of events by code and time, and the events in this order."""
    instants, rank = np.unique(time, return_inverse=True)
    number = code * (len(instants) + 1) + rank
    order = np.argsort(number, kind="stable")
    return order, EventArrays(time[order], number[order], instants, last[order])


def _micros(times: pa.Array) -> Ints:
    micros: Ints = times.cast(pa.int64()).to_numpy()
    return micros


def aggregate_ranges(values: pa.Array, first: Ints, length: Ints, operation: Operation) -> pa.Array:
    """Aggregate each range (first, length >= 1) of the values; null if all its values are null."""
    if operation == "sum":
        return _sum_ranges(values, first, length)
    return _range_extremes(values, first, length, find_min=operation == "min")


def _sum_ranges(values: pa.Array, first: Ints, length: Ints) -> pa.Array:
    empty = _empty_ranges(values, first, length)
    if pa.types.is_decimal(values.type):
        return _decimal_sums(values, first, length, empty)
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    sums = _range_sums(plain, first, length)
    if plain.dtype.kind == "i":
        _raise_on_overflow(plain, sums, first, length)
    return pa.array(sums, type=values.type, mask=empty)


def _empty_ranges(values: pa.Array, first: Ints, length: Ints) -> Flags | None:
    """Return which ranges contain only nulls; None without nulls."""
    if not values.null_count:
        return None
    is_valid = np.asarray(values.is_valid()).astype(np.int64)
    empty: Flags = _range_sums(is_valid, first, length) == 0
    return empty


def _range_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    if values.dtype.kind != "i":
        return _block_sums(values, first, length)
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    differences: Numbers = totals[first + length] - totals[first]
    return differences


def _block_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    sums = np.zeros(len(first), dtype=values.dtype)
    # The position up to which each range is summed, and the sums of blocks of 2^digit values.
    position = first.copy()
    blocks = values
    with np.errstate(invalid="ignore"):
        for digit in range(int(length.max(initial=0)).bit_length()):
            size = 1 << digit
            in_block = np.flatnonzero(length & size)
            sums[in_block] += blocks[position[in_block]]
            position[in_block] += size
            blocks = blocks[:-size] + blocks[size:]
    return sums


def _raise_on_overflow(values: Numbers, sums: Numbers, first: Ints, length: Ints) -> None:
    highest = float(np.abs(values.astype(np.float64)).max(initial=0.0))
    if highest * int(length.max(initial=0)) < 2.0**62:
        return
    # An overflowed sum is off by a multiple of 2^64, far more than the rounding error of a double.
    approximate = _block_sums(values.astype(np.float64), first, length)
    if (np.abs(approximate - sums.astype(np.float64)) >= 2.0**63).any():
        raise OverflowError(
            "the sum of a sliding window exceeds a bigint\n"
            "  fix: cast the column to decimal(38, 0) or double."
        )


def _decimal_sums(values: pa.Array, first: Ints, length: Ints, empty: Flags | None) -> pa.Array:
    digits = _decimal_digits(values.fill_null(0))
    sums = np.empty((len(first), _DECIMAL_DIGITS), dtype=np.uint32)
    carry = np.zeros(len(first), dtype=np.int64)
    for digit in range(_DECIMAL_DIGITS):
        column = np.ascontiguousarray(digits[:, digit])
        carry += _range_sums(column, first, length)
        sums[:, digit] = (carry & 0xFFFFFFFF).astype(np.uint32)
        carry >>= 32
    # The last carry continues the sign of a sum that fits 128 bits.
    top = (carry << 32) + sums[:, -1].astype(np.int64)
    fits = _is_within_38_digits(top, sums)
    is_valid = fits if empty is None else fits & ~empty
    validity = None if is_valid.all() else pa.array(is_valid).buffers()[1]
    buffers = [validity, pa.py_buffer(sums.tobytes())]
    return pa.Array.from_buffers(values.type, len(first), buffers)


def _is_within_38_digits(top: Ints, digits: Numbers) -> Flags:
    """Return which numbers have at most 38 digits.

    top: the highest 32-bit digit, with the sign. digits: all of them, lowest first.
    """
    return _is_at_least(1 - 10**38, top, digits) & ~_is_at_least(10**38, top, digits)


def _is_at_least(bound: int, top: Ints, digits: Numbers) -> Flags:
    bounds = [(bound >> (32 * digit)) & 0xFFFFFFFF for digit in range(_DECIMAL_DIGITS - 1)]
    is_at_least: Flags = np.ones(len(top), dtype=bool)
    for digit, lower in enumerate(bounds):
        column = digits[:, digit].astype(np.int64)
        is_at_least = (column > lower) | ((column == lower) & is_at_least)
    highest = bound >> (32 * (_DECIMAL_DIGITS - 1))
    above: Flags = (top > highest) | ((top == highest) & is_at_least)
    return above


def _decimal_digits(decimals: pa.Array) -> Ints:
    """Return the 32-bit digits of decimals, lowest first.

    A decimal128 is an integer of 16 bytes. Its digits are widened to 64 bits, so that each position
    is summed separately and carries are added at the end. The highest digit has the sign.
    """
    words = np.frombuffer(decimals.buffers()[1], dtype="<u4")
    begin = _DECIMAL_DIGITS * decimals.offset
    end = begin + _DECIMAL_DIGITS * len(decimals)
    digits = words[begin:end].reshape(-1, _DECIMAL_DIGITS).astype(np.int64)
    digits[:, -1] = digits[:, -1].astype(np.uint32).view(np.int32)
    return digits


def _range_extremes(values: pa.Array, first: Ints, length: Ints, *, find_min: bool) -> pa.Array:
    # The result is the value of maximum rank; ranks are reversed for the minimum, and -1 for null.
    order = _sorted_positions(values)
    if find_min:
        order = order[::-1]
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    rank[~np.asarray(values.is_valid())] = -1
    best = _range_max(rank, first, length)
    return values.take(pa.array(order[best], mask=best < 0))


def _range_max(numbers: Ints, first: Ints, length: Ints) -> Ints:
    """Return the maximum of each range, from the two largest blocks that cover it."""
    maxima = np.full(len(first), -1, dtype=np.int64)
    blocks = numbers
    digits = np.frexp(length.astype(np.float64))[1] - 1
    for digit in range(int(digits.max(initial=-1)) + 1):
        size = 1 << digit
        of_size = np.flatnonzero(digits == digit)
        begin = first[of_size]
        end = begin + length[of_size]
        maxima[of_size] = np.maximum(blocks[begin], blocks[end - size])
        blocks = np.maximum(blocks[:-size], blocks[size:])
    return maxima


def _sorted_positions(values: pa.Array) -> Ints:
    """Return the positions of the values in ascending order, as Spark orders them."""
    keys = {f"{i}": part for i, part in enumerate(_sort_keys(values))}
    sorting = [(name, "ascending") for name in keys]
    positions: Ints = pc.sort_indices(pa.table(keys), sort_keys=sorting).to_numpy().astype(np.int64)
    return positions


def _sort_keys(values: pa.Array) -> list[pa.Array]:
    # Spark orders null first inside a struct, and NaN after all numbers.
    if not pa.types.is_struct(values.type):
        return [values.is_valid(), values]
    return [values.is_valid(), *[key for field in values.flatten() for key in _sort_keys(field)]]
