"""Dates, times and numbers in the encodings of Kafka Connect's logical types, as Arrow arrays.

The functions take the values of many records, which Avro or Protobuf encodes, with a cursor for
each value. A value that its column cannot store is null, and its cursor has the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._arrow.cursors import Cursors, NumpyArray, combine_rows, wrong_type_fault
from ._connect_types import (
    EXACT,
    FIRST_DAY,
    LAST_DAY,
    NON_FINITE,
    bounded,
    cast_numbers,
    fit_decimal,
    infinite_time,
    not_finite_fault,
    out_of_range_fault,
    parse_date,
    parse_number,
    parse_numbers,
    parse_times,
    parse_timestamp,
    time_text_fault,
    to_decimals,
    to_timestamps_of_unit,
)

_DECIMAL_BYTES = 16
_MAX_DECIMAL_BYTES = 64
_GREATEST_DECIMAL = pa.scalar(Decimal(10**38 - 1), pa.decimal128(38, 0))
# Unary minus would round the number to the precision of the decimal context.
_LEAST_DECIMAL = pa.scalar(Decimal(10**38 - 1).copy_negate(), pa.decimal128(38, 0))
_ARROW_NAMES = {number: name for name, number in reversed(NON_FINITE.items())}
"""The names of the numbers that are not finite, by the texts to which Arrow casts them."""


def dates_of_days(cursors: Cursors, days: Any, path: str) -> Any:
    """Return the dates of days since 1970, in the years 1 to 9999."""
    dates = bounded(days, FIRST_DAY, LAST_DAY, pa.date32())
    _mark_lost(cursors, days, dates, lambda day: out_of_range_fault(path, day))
    return dates


def timestamps_of_numbers(
    cursors: Cursors, numbers: Any, unit: str, output: pa.DataType, path: str
) -> Any:
    """Return the timestamps of numbers in a unit, in the years 1 to 9999."""

    def fault(number: int) -> str:
        infinite = infinite_time(number, unit)
        return not_finite_fault(path, infinite) if infinite else out_of_range_fault(path, number)

    timestamps = to_timestamps_of_unit(numbers, unit, output)
    _mark_lost(cursors, numbers, timestamps, fault)
    return timestamps


def times_of_texts(cursors: Cursors, texts: Any, output: pa.DataType, path: str) -> Any:
    """Return the dates or timestamps of texts in ISO 8601."""
    parse = parse_date if pa.types.is_date(output) else parse_timestamp
    times = _with_parsed(texts, parse_times(texts, output), parse)
    _mark_lost(cursors, texts, times, partial(time_text_fault, path))
    return times


def numbers_of_texts(cursors: Cursors, texts: Any, output: pa.DataType, path: str) -> Any:
    """Return the decimals of texts."""

    def parse(text: str) -> Decimal | None:
        number = parse_number(text)
        return None if number is None else fit_decimal(number, output)

    def fault(text: str) -> str:
        name = text if text in NON_FINITE else _ARROW_NAMES.get(text)
        if name is not None:
            return not_finite_fault(path, name)
        is_number = parse_number(text) is not None
        return out_of_range_fault(path, text[:40]) if is_number else wrong_type_fault(path)

    numbers = _with_parsed(texts, parse_numbers(texts, output), parse)
    _mark_lost(cursors, texts, numbers, fault)
    return numbers


def read_decimals(
    cursors: Cursors,
    starts: NumpyArray,
    lengths: NumpyArray,
    scales: NumpyArray,
    output: pa.DataType,
    path: str,
) -> Any:
    """Return the decimals of unscaled integers in big-endian two's complement.

    starts, lengths: the spans of the integers in the data of the cursors.
    output: the type of the result: a decimal, a floating-point number, or text.
    """
    invalid = (lengths < 1) | (lengths > _MAX_DECIMAL_BYTES)
    cursors.mark_invalid(invalid, wrong_type_fault(path))
    lengths = np.where(invalid, 0, lengths)
    low, fits = _twos_complement(cursors, starts, lengths)
    unscaled = to_decimals(low, np.ones(len(cursors), bool), 0)
    in_range = pc.and_(
        pc.greater_equal(unscaled, _LEAST_DECIMAL), pc.less_equal(unscaled, _GREATEST_DECIMAL)
    )
    fits &= (lengths > 0) & in_range.to_numpy(zero_copy_only=False)
    parts = []
    for scale in np.unique(scales[fits]).tolist():
        rows = np.flatnonzero(fits & (scales == scale))
        parts.append((rows, cast_numbers(to_decimals(low[rows], fits[rows], scale), output)))
    decimals = combine_rows(parts, len(cursors), output)

    def number_text(row: int) -> str | None:
        if not fits[row]:
            return None
        number = Decimal(unscaled[row].as_py()).scaleb(-int(scales[row]), EXACT)
        return format(number, "f")

    def fault(row: int) -> str:
        text = number_text(row)
        return wrong_type_fault(path) if text is None else out_of_range_fault(path, text)

    rows_of_values = pa.array(np.arange(len(cursors)))
    if pa.types.is_string(output):
        decimals = _with_parsed(rows_of_values, decimals, number_text)
    _mark_lost(cursors, rows_of_values, decimals, fault)
    return decimals


def _twos_complement(
    cursors: Cursors, starts: NumpyArray, lengths: NumpyArray
) -> tuple[NumpyArray, NumpyArray]:
    """Return numbers as 16 little-endian bytes, and whether they fit into 16 bytes."""
    width = max(_DECIMAL_BYTES, int(lengths.max(initial=0)))
    byte_index = np.arange(width)
    indexes = (starts + lengths)[:, None] - 1 - byte_index
    inside = byte_index < lengths[:, None]
    byte_rows = cursors.data[np.where(inside, indexes, 0)]
    negative = (cursors.data[starts] >= 0x80) & (lengths > 0)
    sign = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    byte_rows = np.where(inside, byte_rows, sign)
    low = np.ascontiguousarray(byte_rows[:, :_DECIMAL_BYTES])
    same_sign = (low[:, -1] >= 0x80) == negative
    return low, same_sign & (byte_rows[:, _DECIMAL_BYTES:] == sign).all(axis=1)


def _with_parsed(written: Any, values: Any, parse: Callable[[Any], Any]) -> Any:
    """Return values with those that Arrow did not read, which are parsed one by one."""
    if not values.null_count:
        return values
    is_unread = values.is_null().to_numpy(zero_copy_only=False)
    unread, read = np.flatnonzero(is_unread), np.flatnonzero(~is_unread)
    parsed = [parse(each) for each in written.take(pa.array(unread)).to_pylist()]
    parts = [(read, values.take(pa.array(read))), (unread, pa.array(parsed, values.type))]
    return combine_rows(parts, len(values), values.type)


def _mark_lost(cursors: Cursors, written: Any, values: Any, fault: Callable[[Any], str]) -> None:
    """Mark the rows whose values are null as invalid, with the fault of what was written."""
    if values.null_count:
        is_lost = values.is_null().to_numpy(zero_copy_only=False) & (cursors.fault == 0)
        for row in np.flatnonzero(is_lost):
            cursors.mark_invalid(np.array([row]), fault(written[row].as_py()))
