"""Readers for values of one Avro schema with the types of another: Avro's schema resolution.

Fields that only the writer has are skipped, fields that only the reader has get their default, and
numbers are widened. In addition to Avro's rules, a union is read if the reader supports some of its
types; values of the other types are invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...arrow_kernels import key_codes
from .._arrow.arrow_types import to_arrow_type
from .._arrow.cursors import (
    MALFORMED,
    TRUNCATED,
    Cursors,
    Faults,
    NumpyArray,
    ReadFunction,
    child_path,
    combine_rows,
    group_elements,
    make_cursors,
    make_list_array,
    wrong_type_fault,
)
from .._connect_types import DAYS, NANOS_PER_UNIT, PLAIN, VARIABLE_DECIMAL
from ._avro_schema import (
    LOCAL,
    MICROS,
    MILLIS,
    NANOS,
    NUMBERS,
    RECURSIVE,
    AvroField,
    AvroType,
    SchemaError,
)
from ._avro_types import spark_type, without_null
from ._defaults import encode_default
from ._primitives import (
    bytes_reader,
    date_reader,
    decimal_reader,
    enum_reader,
    number_reader,
    number_text_reader,
    read_boolean,
    span_reader,
    text_reader,
    time_text_reader,
    timestamp_reader,
    uuid_reader,
    variable_decimal_reader,
)

# Long arrays of a few rows: a scalar pass locates the elements of each row; a vectorized pass then
# reads and validates the elements of all rows, as if each were a row.

SkipFunction: TypeAlias = Callable[[bytes, int], int]
"""Returns the position after a value; raises IndexError or ValueError for an invalid value."""

_MAX_VARINT_BYTES = 10


_MAX_LEVELS = 100
"""The number of levels of a recursive record that are skipped."""
_TOO_DEEP = f"more than {_MAX_LEVELS} levels of a recursive record"


@dataclass
class _RecursiveSkip:
    """Skips the values of a recursive reference, which has the readers of its own declaration.

    skip: reads or skips a value, with the arguments of this call; set after the declaration.
    """

    skip: Callable[..., Any] | None = None
    _levels: int = 0

    def read(self, cursors: Cursors) -> None:
        """Advance the cursors behind the values."""
        if self._levels == _MAX_LEVELS:
            cursors.mark_invalid(np.ones(len(cursors), bool), _TOO_DEEP)
        valid = np.flatnonzero(cursors.fault == 0)
        if len(valid):
            self._enter(lambda skip: cursors.read_rows(valid, skip))

    def position_after(self, data: bytes, position: int) -> int:
        """Return the position after a value."""
        if self._levels == _MAX_LEVELS:
            raise ValueError
        end: int = self._enter(lambda skip: skip(data, position))
        return end

    def _enter(self, call: Callable[[Callable[..., Any]], Any]) -> Any:
        assert self.skip is not None
        self._levels += 1
        try:
            return call(self.skip)
        finally:
            self._levels -= 1


_Declared: TypeAlias = dict[str, _RecursiveSkip]
"""The records that are skipped, by the full name of their recursive references."""


def skip_function(avro_type: AvroType, declared: _Declared | None = None) -> SkipFunction:
    declared = {} if declared is None else declared
    if avro_type.type_name == RECURSIVE:
        if avro_type.name not in declared:
            recursive = declared[avro_type.name] = _RecursiveSkip()
            recursive.skip = skip_function(avro_type.declared, declared)
        return declared[avro_type.name].position_after
    if avro_type.type_name == "null":
        return lambda data, position: position
    if avro_type.type_name in ("boolean", "float", "double", "fixed"):
        size = {"boolean": 1, "float": 4, "double": 8}.get(avro_type.type_name, avro_type.size)
        return lambda data, position: _check_bounds(data, position + size)
    if avro_type.type_name in ("string", "bytes"):
        return _skip_length_prefixed
    if avro_type.type_name == "record":
        return _record_skip_function(
            [skip_function(field.type, declared) for field in avro_type.fields]
        )
    if avro_type.type_name == "union":
        return _union_skip_function(
            [skip_function(branch, declared) for branch in avro_type.branches]
        )
    if avro_type.type_name in ("array", "map"):
        return _blocks_skip_function(skip_function(_block_type(avro_type), declared))
    return lambda data, position: _read_varint(data, position)[1]


def _block_type(avro_type: AvroType) -> AvroType:
    """Return the type of the elements of an array, or of the entries of a map."""
    if avro_type.type_name == "array":
        return avro_type.element_type
    key = AvroField("key", AvroType("string"))
    return AvroType("record", fields=(key, AvroField("value", avro_type.element_type)))


def _record_skip_function(skips: list[SkipFunction]) -> SkipFunction:
    def skip(data: bytes, position: int) -> int:
        for skip_one in skips:
            position = skip_one(data, position)
        return position

    return skip


def _check_bounds(data: bytes, position: int) -> int:
    if position > len(data):
        raise ValueError
    return position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for next_position in range(position + 1, position + 1 + _MAX_VARINT_BYTES):
        byte = data[next_position - 1]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), next_position
        shift += 7
    raise ValueError


def _skip_length_prefixed(data: bytes, position: int) -> int:
    length, next_position = _read_varint(data, position)
    if length < 0:
        raise ValueError
    return _check_bounds(data, next_position + length)


def _union_skip_function(skips: list[SkipFunction]) -> SkipFunction:
    def skip(data: bytes, position: int) -> int:
        branch, next_position = _read_varint(data, position)
        if branch < 0:
            raise ValueError
        return skips[branch](data, next_position)

    return skip


def _blocks_skip_function(skip_element: SkipFunction) -> SkipFunction:
    def skip(data: bytes, position: int) -> int:
        while True:
            count, position = _read_varint(data, position)
            if count == 0:
                return position
            if count < 0:
                _, position = _read_varint(data, position)
            for _ in range(min(abs(count), len(data) + 1)):
                position = skip_element(data, position)

    return skip


def read_elements(
    cursors: Cursors, counts: NumpyArray, skip: SkipFunction, read: ReadFunction
) -> tuple[NumpyArray, object]:
    """Read `counts` elements of each of a few rows in one call.

    Returns the row index of each element, and the elements.
    """
    rows = []
    starts = []
    ends = []
    for row, count in enumerate(counts.tolist()):
        first = int(cursors.position[row])
        last = int(cursors.end[row])
        content = cursors.data[first:last].tobytes()
        edges = [first + edge for edge in _element_bounds(content, count, skip)]
        # The last element of an invalid array extends to the end; reading it finds the fault.
        if len(edges) <= count:
            edges.append(last)
        rows.append(np.full(len(edges) - 1, row))
        starts.append(np.array(edges[:-1], np.int64))
        ends.append(np.array(edges[1:], np.int64))
    element_rows = np.concatenate(rows)
    elements = Cursors(
        cursors.data,
        np.concatenate(starts),
        np.concatenate(ends),
        cursors.fault[element_rows],
        cursors.faults,
    )
    values = read(elements)
    elements.mark_invalid(elements.position != elements.end, MALFORMED)
    cursors.position[element_rows] = elements.end
    cursors.propagate_faults(element_rows, elements.fault)
    return element_rows, values


def _element_bounds(data: bytes, count: int, skip: SkipFunction) -> list[int]:
    """Return the bounds of the elements, up to the first invalid one."""
    bounds = [0]
    try:
        for _ in range(count):
            bounds.append(skip(data, bounds[-1]))
    except (IndexError, ValueError):
        pass
    return bounds


# Unions, arrays and maps

_MAX_SINGLE_ROWS = 16
"""Up to this number of rows, long arrays are read by `read_elements`."""


def rows_by_branch(cursors: Cursors, count: int) -> Iterator[tuple[int, NumpyArray]]:
    branch = cursors.zigzag()
    cursors.mark_invalid((branch < 0) | (branch >= count), MALFORMED)
    valid = cursors.fault == 0
    for index in range(count):
        rows = np.flatnonzero(valid & (branch == index))
        if len(rows):
            yield index, rows


def rows_with_duplicate_keys(offsets: Any, keys: Any) -> NumpyArray:
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = key_codes(rows, [keys])
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return rows[first[counts > 1]]


def read_blocks(
    cursors: Cursors, read_element: ReadFunction, skip: SkipFunction
) -> Iterator[tuple[NumpyArray, Any]]:
    """Read the elements of arrays or maps: the first of every row, then the second, and so on.

    Yields rows with one element of each. Once few rows remain, all their elements are read in one
    call.
    """
    remaining = np.zeros(len(cursors), np.int64)
    unfinished = np.flatnonzero(cursors.fault == 0)
    while len(unfinished):
        starting = unfinished[remaining[unfinished] == 0]
        if len(starting):
            remaining[starting] = cursors.read_rows(starting, _read_block_count)
        unfinished = unfinished[(remaining[unfinished] > 0) & (cursors.fault[unfinished] == 0)]
        if not len(unfinished):
            return
        counts = remaining[unfinished]
        if len(unfinished) <= _MAX_SINGLE_ROWS < counts.max():
            read_all = partial(read_elements, counts=counts, skip=skip, read=read_element)
            rows, elements = cursors.read_rows(unfinished, read_all)
            yield unfinished[rows], elements
            remaining[unfinished] = 0
        else:
            yield unfinished, cursors.read_rows(unfinished, read_element)
            remaining[unfinished] -= 1


def _read_block_count(cursors: Cursors) -> NumpyArray:
    """Return the element count of the next block; after a negative count, skip the block size."""
    count = cursors.zigzag()
    negative = np.flatnonzero(count < 0)
    if len(negative):
        cursors.read_rows(negative, Cursors.zigzag)
        count = np.abs(count)
    # An element takes at least one byte. The absolute value of the smallest number is negative.
    cursors.mark_invalid((count > cursors.end - cursors.position) | (count < 0), TRUNCATED)
    return np.where(cursors.fault == 0, count, 0)


def skip_reader(writer: AvroType, declared: _Declared | None = None) -> ReadFunction:
    declared = {} if declared is None else declared
    if writer.type_name == RECURSIVE:
        if writer.name not in declared:
            recursive = declared[writer.name] = _RecursiveSkip()
            recursive.skip = skip_reader(writer.declared, declared)
        return declared[writer.name].read
    if writer.type_name == "null":
        return lambda cursors: None
    if writer.type_name == "union":
        return _skip_union_reader([skip_reader(branch, declared) for branch in writer.branches])
    if writer.type_name == "record":
        return _skip_record_reader([skip_reader(field.type, declared) for field in writer.fields])
    if writer.type_name in ("array", "map"):
        block_type = _block_type(writer)
        return _skip_blocks_reader(skip_reader(block_type, declared), skip_function(block_type))
    if writer.type_name in ("string", "bytes", "fixed"):
        return span_reader(writer)
    if writer.type_name == "boolean":
        return read_boolean
    plain_type = replace(writer, logical="")
    return number_reader(plain_type, plain_type, "")


def _skip_record_reader(reads: list[ReadFunction]) -> ReadFunction:
    def read(cursors: Cursors) -> None:
        for read_one in reads:
            read_one(cursors)

    return read


def _skip_blocks_reader(read_element: ReadFunction, skip: SkipFunction) -> ReadFunction:
    def read(cursors: Cursors) -> None:
        for _ in read_blocks(cursors, read_element, skip):
            pass

    return read


def _skip_union_reader(reads: list[ReadFunction]) -> ReadFunction:
    def read(cursors: Cursors) -> None:
        for branch, rows in rows_by_branch(cursors, len(reads)):
            cursors.read_rows(rows, reads[branch])

    return read


# Scalar types


def _resolve_scalar(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    """Return a reader for scalar values; None for incompatible types."""
    if reader.logical == "decimal":
        return _resolve_decimal(writer, reader, path)
    if reader.type_name == "long" and reader.logical:
        return _resolve_timestamp(writer, reader, path)
    if reader.logical == "date":
        return _resolve_date(writer, reader, path)
    if reader.type_name in NUMBERS:
        return _resolve_number(writer, reader, path)
    if reader.type_name == "boolean":
        return read_boolean if writer.type_name == "boolean" else None
    if reader.type_name == "enum":
        is_same = writer.type_name == "enum" and has_same_name(writer, reader)
        return enum_reader(writer, reader, path) if is_same else None
    return _resolve_bytes(writer, reader, path)


def _resolve_number(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    is_double = reader.type_name in ("float", "double")
    if is_double and reader.from_spark_type and writer.logical == "decimal":
        return decimal_reader(writer, writer.scale, arrow_type_of(reader), path)
    narrower_types = NUMBERS[: NUMBERS.index(reader.type_name) + 1]
    # A plain number type of Spark does not match days or milliseconds.
    if writer.type_name not in narrower_types or (writer.logical and reader.from_spark_type):
        return None
    return number_reader(writer, reader, path)


def _resolve_date(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    if writer.type_name == "int":
        is_date = writer.logical == "date" or writer.connect == DAYS
        return date_reader(path) if is_date or not reader.from_spark_type else None
    return _resolve_time_text(writer, reader, path)


def _resolve_timestamp(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    output = arrow_type_of(reader)
    if writer.type_name == "int" and not writer.logical and not reader.from_spark_type:
        return timestamp_reader(_unit(reader.logical), output, path)
    if writer.type_name != "long":
        return _resolve_time_text(writer, reader, path)
    if reader.from_spark_type and writer.connect in NANOS_PER_UNIT:
        return timestamp_reader(str(writer.connect), output, path)
    if not writer.logical and reader.from_spark_type:
        return None
    logical = writer.logical or reader.logical
    is_same = logical.startswith(LOCAL) == reader.logical.startswith(LOCAL)
    return timestamp_reader(_unit(logical), output, path) if is_same else None


def _unit(logical: str) -> str:
    return _UNITS[logical.removeprefix(LOCAL)]


_UNITS = {MILLIS: "milliseconds", MICROS: "microseconds", NANOS: "nanoseconds"}


def _resolve_time_text(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    is_time = writer.type_name == "string" and writer.connect == PLAIN
    is_read = is_time and reader.from_spark_type
    return time_text_reader(writer, arrow_type_of(reader), path) if is_read else None


def _resolve_decimal(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    output = arrow_type_of(reader)
    if reader.from_spark_type:
        if writer.logical == "decimal":
            return decimal_reader(writer, writer.scale, output, path)
        is_number = writer.type_name in ("string", "float", "double") and not writer.logical
        return number_text_reader(writer, output, path) if is_number else None
    if writer.type_name not in ("bytes", "fixed") or writer.type_name != reader.type_name:
        return None
    if writer.logical and (writer.scale != reader.scale or writer.precision > reader.precision):
        return None
    return decimal_reader(writer, reader.scale, output, path)


def _resolve_bytes(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    """Return a reader for texts and bytes; None for incompatible types."""
    if reader.type_name == "fixed" or (writer.type_name == "fixed" and not reader.from_spark_type):
        is_same = writer.type_name == reader.type_name and writer.size == reader.size
        if not is_same or not has_same_name(writer, reader):
            return None
        return uuid_reader(writer, path) if reader.logical == "uuid" else bytes_reader(writer)
    if writer.logical == "decimal" and reader.from_spark_type:
        is_text = reader.type_name == "string"
        return decimal_reader(writer, writer.scale, pa.string(), path) if is_text else None
    if writer.logical == "decimal":
        return bytes_reader(writer)
    if reader.type_name == "string":
        if writer.type_name == "enum":
            return enum_reader(writer, reader, path) if reader.from_spark_type else None
        if (reader.logical or reader.from_spark_type * writer.logical) == "uuid":
            return uuid_reader(writer, path) if writer.type_name in ("string", "fixed") else None
        # An Avro schema may read bytes as text; a Spark type does not.
        allowed = ("string",) if reader.from_spark_type else ("string", "bytes")
        return text_reader(writer, path) if writer.type_name in allowed else None
    allowed = ("bytes", "fixed") if reader.from_spark_type else ("bytes", "string")
    return bytes_reader(writer) if writer.type_name in allowed else None


def has_same_name(writer: AvroType, reader: AvroType) -> bool:
    """Return whether the name of the writer's type matches the reader's type."""
    return reader.from_spark_type or writer.name in (reader.name, *reader.aliases)


# All types


def resolve(writer: AvroType, reader: AvroType, path: str = "") -> ReadFunction:
    """Return a reader for values of the writer's type as values of the reader's type.

    Raises SchemaError for incompatible types.
    """
    value_type = without_null(reader)
    if writer.type_name == "union":
        return _resolve_union(writer, value_type, reader.is_nullable, path)
    if writer.type_name == "null":
        raise SchemaError(f"{_path_text(path)} is always null, expected {value_type}")
    read = _resolve_non_union(writer, value_type, path)
    if read is None:
        raise SchemaError(f"{_path_text(path)} is {writer}, expected {value_type}")
    return read


def _resolve_non_union(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    """Return a reader for a type other than a union; None for incompatible types."""
    writer = writer.declared
    if writer.connect == VARIABLE_DECIMAL and reader.from_spark_type:
        output = arrow_type_of(reader)
        if pa.types.is_decimal(output) or pa.types.is_floating(output) or output == pa.string():
            return variable_decimal_reader(writer, output, path)
    nested = {"record": _resolve_record, "array": _resolve_array, "map": _resolve_map}
    if writer.type_name in nested or reader.type_name in nested:
        is_same = writer.type_name == reader.type_name
        return nested[writer.type_name](writer, reader, path) if is_same else None
    return _resolve_scalar(writer, reader, path)


def _resolve_union(
    writer: AvroType, reader: AvroType, is_nullable: bool, path: str
) -> ReadFunction:
    """Return a reader for the compatible branches; values of other branches are invalid."""
    arrow_type = arrow_type_of(reader)
    reads = _resolve_branches(writer, reader, path)

    def read(cursors: Cursors) -> Any:
        parts = []
        for branch, rows in rows_by_branch(cursors, len(reads)):
            read_branch = reads[branch]
            if read_branch is not None:
                parts.append((rows, cursors.read_rows(rows, read_branch)))
            elif writer.branches[branch].type_name != "null":
                cursors.mark_invalid(rows, wrong_type_fault(path))
            elif not is_nullable:
                cursors.mark_invalid(rows, f"missing field: {path}")
        return combine_rows(parts, len(cursors), arrow_type)

    return read


def _resolve_branches(writer: AvroType, reader: AvroType, path: str) -> list[ReadFunction | None]:
    """Return the reader of each branch; None for null and for incompatible branches."""
    reads: list[ReadFunction | None] = []
    error = SchemaError(f"{_path_text(path)} is {writer}, expected {reader}")
    for branch in writer.branches:
        read = None
        if branch.type_name != "null":
            try:
                read = _resolve_non_union(branch, reader, path)
            except SchemaError as fault:
                error = fault
        reads.append(read)
    if not any(reads):
        raise error
    return reads


def _resolve_record(writer: AvroType, reader: AvroType, path: str) -> ReadFunction | None:
    if not has_same_name(writer, reader):
        return None
    read = record_fields_reader(writer, reader, path)
    arrow_type = arrow_type_of(reader)
    return lambda cursors: pa.StructArray.from_arrays(read(cursors), fields=list(arrow_type))


def record_fields_reader(writer: AvroType, reader: AvroType, path: str = "") -> ReadFunction:
    """Return a reader for a record as a list of fields, in the order of the reader."""
    positions = _reader_positions(writer, reader)
    field_reads: list[tuple[int | None, ReadFunction]] = []
    for field in writer.fields:
        position = positions.get(field.name)
        if position is None:
            field_reads.append((None, skip_reader(field.type)))
        else:
            reader_field = reader.fields[position]
            read_path = child_path(path, reader_field.name)
            field_reads.append((position, resolve(field.type, reader_field.type, read_path)))
    defaults = {
        position: _default_array(field, child_path(path, field.name))
        for position, field in enumerate(reader.fields)
        if position not in positions.values()
    }

    def read(cursors: Cursors) -> list[Any]:
        arrays: list[Any] = [None] * len(reader.fields)
        for position, read_field in field_reads:
            value = read_field(cursors)
            if position is not None:
                arrays[position] = value
        rows = pa.array(np.zeros(len(cursors), np.int64))
        for position, default in defaults.items():
            arrays[position] = default.take(rows)
        return arrays

    return read


def _reader_positions(writer: AvroType, reader: AvroType) -> dict[str, int]:
    """Return the position of the matching field of the reader by the name of a writer's field."""
    unmatched = {field.name for field in writer.fields}
    positions = {}
    for position, field in enumerate(reader.fields):
        matches = [name for name in (field.name, *field.aliases) if name in unmatched]
        if matches:
            positions[matches[0]] = position
            unmatched.discard(matches[0])
    return positions


def _default_array(field: AvroField, name: str) -> Any:
    if not field.has_default:
        raise SchemaError(f"{name} is missing and has no default")
    if field.default is None and field.type.is_nullable:
        return pa.nulls(1, arrow_type_of(field.type))
    encoded = pa.array([encode_default(field.type, field.default, name)])
    cursors = make_cursors(encoded, Faults(), MALFORMED)
    array = resolve(field.type, field.type, name)(cursors)
    if cursors.fault.any() or (cursors.position != cursors.end).any():
        raise SchemaError(f"the default of {name} does not match its type")
    return array


def _resolve_array(writer: AvroType, reader: AvroType, path: str) -> ReadFunction:
    read = resolve(writer.element_type, reader.element_type, path)
    skip = skip_function(_block_type(writer))
    arrow_type = arrow_type_of(reader.element_type)
    return lambda cursors: make_list_array(
        list(read_blocks(cursors, read, skip)), len(cursors), arrow_type
    )


def _resolve_map(writer: AvroType, reader: AvroType, path: str) -> ReadFunction:
    read_key = text_reader(AvroType("string"), path)
    skip = skip_function(_block_type(writer))
    read_value = resolve(writer.element_type, reader.element_type, path)
    value_type = arrow_type_of(reader.element_type)
    fields = [pa.field("key", pa.string(), False), pa.field("value", value_type)]
    entry_type = pa.struct(fields)

    def read_entry(cursors: Cursors) -> Any:
        key = read_key(cursors)
        return pa.StructArray.from_arrays([key, read_value(cursors)], fields=fields)

    def read(cursors: Cursors) -> Any:
        parts = list(read_blocks(cursors, read_entry, skip))
        offsets, entries = group_elements(parts, len(cursors), entry_type)
        keys, values = entries.flatten()
        cursors.mark_invalid(rows_with_duplicate_keys(offsets, keys), wrong_type_fault(path))
        return pa.MapArray.from_arrays(offsets, keys, values)

    return read


def arrow_type_of(avro_type: AvroType) -> Any:
    return to_arrow_type(spark_type(avro_type))


def _path_text(path: str) -> str:
    return path or "the value"
