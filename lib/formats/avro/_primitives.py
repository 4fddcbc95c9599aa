"""Vectorized readers of Avro's primitive and logical types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.cursors import (
    MALFORMED,
    Cursors,
    NumpyArray,
    ReadFunction,
    decode_utf8,
    wrong_type_fault,
)
from ._avro_schema import LOCAL, MILLIS, AvroType

_NUMPY_TYPES = {"int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}
_FIRST_DAY = (date.min - date(1970, 1, 1)).days
_LAST_DAY = (date.max - date(1970, 1, 1)).days
_DAY_MICROS = 86_400_000_000
_EXACT_CONTEXT = Context(prec=80)
_DECIMAL_BYTES = 16
_MAX_DECIMAL_BYTES = 64
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
        days = cursors.zigzag()
        _require_bounds(cursors, days, _FIRST_DAY, _LAST_DAY, path)
        return pa.array(days.astype(np.int32)).cast(pa.date32())

    return read


def timestamp_reader(logical: str, path: str) -> ReadFunction:
    """Return a reader of timestamps in the years 1 to 9999, in microseconds."""
    unit = 1_000 if logical.endswith(MILLIS) else 1
    arrow_type = pa.timestamp("us", None if logical.startswith(LOCAL) else "UTC")
    first = _FIRST_DAY * _DAY_MICROS // unit
    last = ((_LAST_DAY + 1) * _DAY_MICROS - 1) // unit

    def read(cursors: Cursors) -> pa.Array:
        values = cursors.zigzag()
        _require_bounds(cursors, values, first, last, path)
        return pa.array(values * unit).cast(arrow_type)

    return read


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


def decimal_reader(writer: AvroType, reader: AvroType, path: str) -> ReadFunction:
    """Return a reader of decimals: unscaled integers in big-endian two's complement."""
    span = span_reader(writer)
    # Arrow's widest type stores the bytes unchanged; the bounds are checked in that type.
    wide_type = pa.decimal128(38, reader.scale)
    max_decimal = Decimal(10**reader.precision - 1).scaleb(-reader.scale, _EXACT_CONTEXT)
    max_value = pa.scalar(max_decimal, wide_type)
    # Unary minus would round the number to the precision of the decimal context.
    min_value = pa.scalar(max_decimal.copy_negate(), wide_type)
    zero = pa.scalar(Decimal(0), wide_type)

    def read(cursors: Cursors) -> pa.Array:
        starts, lengths = span(cursors)
        invalid = (lengths < 1) | (lengths > _MAX_DECIMAL_BYTES)
        cursors.mark_invalid(invalid, wrong_type_fault(path))
        lengths = np.where(invalid, 0, lengths)
        low, fits = _twos_complement(cursors, starts, lengths)
        buffers = [None, pa.py_buffer(low.tobytes())]
        values = pa.Array.from_buffers(wide_type, len(cursors), buffers)
        in_range = pc.and_(pc.greater_equal(values, min_value), pc.less_equal(values, max_value))
        fits &= in_range.to_numpy(zero_copy_only=False)
        cursors.mark_invalid(~fits & (lengths > 0), wrong_type_fault(path))
        valid_values = pc.if_else(pa.array(fits), values, zero)
        return valid_values.cast(pa.decimal128(reader.precision, reader.scale))

    return read


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
