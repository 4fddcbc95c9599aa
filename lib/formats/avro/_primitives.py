"""Vectorized readers of Avro's primitive and logical types."""

from __future__ import annotations

from collections.abc import Callable
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
    decode_utf8,
    wrong_type_fault,
)
from .._logical_values import (
    dates_of_days,
    numbers_of_texts,
    read_decimals,
    times_of_texts,
    timestamps_of_numbers,
)
from ._avro_schema import AvroType, SchemaError

_NUMPY_TYPES = {"int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}
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
    return lambda cursors: dates_of_days(cursors, pa.array(cursors.zigzag()), path)


def timestamp_reader(unit: str, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of timestamps in the years 1 to 9999.

    unit: that of the numbers; see `NANOS_PER_UNIT`.
    """
    return lambda cursors: timestamps_of_numbers(
        cursors, pa.array(cursors.zigzag()), unit, output, path
    )


def time_text_reader(writer: AvroType, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of dates or timestamps that are texts in ISO 8601."""
    read_text = text_reader(writer, path)
    return lambda cursors: times_of_texts(cursors, read_text(cursors), output, path)


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
        return read_decimals(cursors, starts, lengths, scales, output, path)

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
        return read_decimals(cursors, starts, lengths, parts["scale"], output, path)

    return read


def number_text_reader(writer: AvroType, output: pa.DataType, path: str) -> ReadFunction:
    """Return a reader of numbers that are text, or floating-point, as decimals."""
    if writer.type_name == "string":
        read_number = text_reader(writer, path)
    else:
        read_number = number_reader(writer, writer, path)

    return lambda cursors: numbers_of_texts(
        cursors, read_number(cursors).cast(pa.string()), output, path
    )
