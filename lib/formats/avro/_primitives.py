"""Vectorized readers of Avro's primitive and logical types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.cursors import (
    MALFORMED,
    Cursors,
    NumpyArray,
    ReadFunction,
    combine_rows,
    decode_utf8,
    wrong_type_fault,
)
from .._connect_types import (
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
    to_decimals,
    to_timestamps_of_unit,
)
from ._avro_schema import AvroType, SchemaError

_NUMPY_TYPES = {"int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}
_DECIMAL_BYTES = 16
_MAX_DECIMAL_BYTES = 64
_GREATEST_DECIMAL = pa.scalar(Decimal(10**38 - 1), pa.decimal128(38, 0))
# Unary minus would round the number to the precision of the decimal context.
_LEAST_DECIMAL = pa.scalar(Decimal(10**38 - 1).copy_negate(), pa.decimal128(38, 0))
_ARROW_NAMES = {number: name for name, number in reversed(NON_FINITE.items())}
"""The names of the numbers that are not finite, by the texts to which Arrow casts them."""
_UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def number_reader(writer: AvroType, reader: AvroType, path: str) -> ReadFunction:
    """Return a reader of numbers that widens them to the type of the reader."""
    dtype = _NUMPY_TYPES[reader.type_name]
    if writer.type_name in ("float", "double"):
        written_dtype = _NUMPY_TYPES[writer.type_name]
        return lambda cursors: pa.array(cursors.fixed(written_dtype).astype(dtype))

    def read(cursors: Cursors) -> pa.Array:
        values = cursors.zigzag()
        if writer.type_name == "int":
            _require_bounds(cursors, values, -(2**31), 2**31 - 1, path)
        return pa.array(values.astype(dtype))

    return read


def _require_bounds(
    cursors: Cursors, values: NumpyArray, min_value: int, max_value: int, path: str
) -> None:
    """Mark rows with numbers out of bounds as invalid, and replace the numbers by 0."""
    out_of_bounds = (values < min_value) | (values > max_value)
    if out_of_bounds.any():
        cursors.mark_invalid(out_of_bounds, wrong_type_fault(path))
        values[out_of_bounds] = 0


def date_reader(path: str) -> ReadFunction:
    def read(cursors: Cursors) -> pa.Array:
        days = pa.array(cursors.zigzag())
        dates = bounded(days, FIRST_DAY, LAST_DAY, pa.date32())
        _mark_lost(cursors, days, dates, lambda day: out_of_range_fault(path, day))
        return dates

    return read


def timestamp_reader(unit: str, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of timestamps in the years 1 to 9999.

    unit: that of the numbers; see `NANOS_PER_UNIT`.
    """

    def fault(number: int) -> str:
        infinite = infinite_time(number, unit)
        return not_finite_fault(path, infinite) if infinite else out_of_range_fault(path, number)

    def read(cursors: Cursors) -> pa.Array:
        numbers = pa.array(cursors.zigzag())
        timestamps = to_timestamps_of_unit(numbers, unit, output)
        _mark_lost(cursors, numbers, timestamps, fault)
        return timestamps

    return read


def time_text_reader(writer: AvroType, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of dates or timestamps that are texts in ISO 8601."""
    read_text = text_reader(writer, path)
    parse = parse_date if pa.types.is_date(output) else parse_timestamp

    def fault(text: str) -> str:
        is_infinite = infinite_time(text, None)
        return not_finite_fault(path, text) if is_infinite else wrong_type_fault(path)

    def read(cursors: Cursors) -> pa.Array:
        texts = read_text(cursors)
        times = _with_parsed(texts, parse_times(texts, output), parse)
        _mark_lost(cursors, texts, times, fault)
        return times

    return read


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


def read_boolean(cursors: Cursors) -> pa.Array:
    values = cursors.byte()
    cursors.mark_invalid(values > 1, MALFORMED)
    return pa.array(values == 1)


def span_reader(writer: AvroType) -> Callable[[Cursors], tuple[NumpyArray, NumpyArray]]:
    """Return a reader of the spans of length-prefixed or fixed-size bytes."""
    if writer.type_name == "fixed":
        return lambda cursors: cursors.span(np.full(len(cursors), writer.size))
    return lambda cursors: cursors.span(cursors.zigzag())


def bytes_reader(writer: AvroType) -> ReadFunction:
    span = span_reader(writer)
    return lambda cursors: cursors.byte_array(*span(cursors))


def text_reader(writer: AvroType, path: str) -> ReadFunction:
    read_bytes = bytes_reader(writer)
    return lambda cursors: decode_utf8(cursors, read_bytes(cursors), path)


def uuid_reader(writer: AvroType, path: str) -> ReadFunction:
    """Return a reader of UUIDs: texts of 36 characters, or 16 bytes."""
    if writer.type_name == "fixed":
        read_bytes = bytes_reader(writer)
        return lambda cursors: pa.array(
            [str(UUID(bytes=value)) if value else "" for value in read_bytes(cursors).to_pylist()],
            pa.string(),
        )
    read_text = text_reader(writer, path)

    def read(cursors: Cursors) -> pa.Array:
        texts = read_text(cursors)
        is_uuid = pc.match_substring_regex(texts, _UUID_PATTERN).to_numpy(zero_copy_only=False)
        cursors.mark_invalid(~is_uuid, wrong_type_fault(path))
        return texts

    return read


def enum_reader(writer: AvroType, reader: AvroType, path: str) -> ReadFunction:
    """Return a reader of enum symbols as texts; unknown symbols become the reader's default."""
    reads_all = reader.type_name == "string" or reader.from_spark_type
    known_symbols = writer.symbols if reads_all else reader.symbols
    names = [symbol if symbol in known_symbols else reader.default for symbol in writer.symbols]
    symbol_array = pa.array([*names, ""], pa.string())
    unknown = np.array([name is None for name in names] + [False])

    def read(cursors: Cursors) -> pa.Array:
        indexes = cursors.zigzag()
        invalid = (indexes < 0) | (indexes >= len(names))
        cursors.mark_invalid(invalid, MALFORMED)
        indexes = np.where(invalid, len(names), indexes)
        cursors.mark_invalid(unknown[indexes], wrong_type_fault(path))
        indexes = np.where(unknown[indexes], len(names), indexes)
        return symbol_array.take(pa.array(indexes))

    return read


def decimal_reader(writer: AvroType, scale: int, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of decimals: unscaled integers in big-endian two's complement.

    output: the type of the result: a decimal, a floating-point number, or text.
    """
    span = span_reader(writer)

    def read(cursors: Cursors) -> pa.Array:
        starts, lengths = span(cursors)
        scales = np.full(len(cursors), scale)
        return _read_decimals(cursors, starts, lengths, scales, output, path)

    return read


def variable_decimal_reader(writer: AvroType, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of Debezium's records of a scale and an unscaled integer."""
    names = [field.name for field in writer.fields]
    if sorted((field.name, field.type.type_name) for field in writer.fields) != [
        ("scale", "int"),
        ("value", "bytes"),
    ]:
        raise SchemaError(f"{writer} with the fields {', '.join(names)}")

    def read(cursors: Cursors) -> pa.Array:
        parts: dict[str, Any] = {}
        for name in names:
            number = cursors.zigzag()
            parts[name] = number if name == "scale" else cursors.span(number)
        starts, lengths = parts["value"]
        return _read_decimals(cursors, starts, lengths, parts["scale"], output, path)

    return read


def number_text_reader(writer: AvroType, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of numbers that are text, or floating-point, as decimals."""
    if writer.type_name == "string":
        read_number = text_reader(writer, path)
    else:
        read_number = number_reader(writer, writer, path)

    def parse(text: str) -> Decimal | None:
        number = parse_number(text)
        return None if number is None else fit_decimal(number, output)

    def read(cursors: Cursors) -> pa.Array:
        texts = read_number(cursors).cast(pa.string())
        numbers = _with_parsed(texts, parse_numbers(texts, output), parse)
        _mark_lost(cursors, texts, numbers, fault)
        return numbers

    def fault(text: str) -> str:
        name = text if text in NON_FINITE else _ARROW_NAMES.get(text)
        if name is not None:
            return not_finite_fault(path, name)
        is_number = parse_number(text) is not None
        return out_of_range_fault(path, text[:40]) if is_number else wrong_type_fault(path)

    return read


def _read_decimals(
    cursors: Cursors,
    starts: NumpyArray,
    lengths: NumpyArray,
    scales: NumpyArray,
    output: pa.DataType,
    path: str,
) -> Any:
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
