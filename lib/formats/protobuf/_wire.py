"""The wire format of Protocol Buffers, decoded into Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from .._arrow.arrow_types import to_arrow_type
from .._arrow.cursors import MALFORMED, Cursors, NumpyArray, decode_utf8, unzigzag, wrong_type_fault
from ._protobuf_schema import ProtoField, spark_value

ArrayBuilder: TypeAlias = Callable[[Cursors, NumpyArray, Any], Any]
"""Builds an Arrow array from the values of a field; the arguments are cursors, rows and values."""

FIXED = {
    "double": "<f8",
    "float": "<f4",
    "fixed64": "<u8",
    "sfixed64": "<i8",
    "fixed32": "<u4",
    "sfixed32": "<i4",
}


def _unpack_values(
    proto_field: ProtoField, cursors: Cursors, starts: NumpyArray, lengths: NumpyArray
) -> tuple[NumpyArray, Any]:
    """Return the rows and the values of spans of packed values."""
    if proto_field.field_type in FIXED:
        dtype = np.dtype(FIXED[proto_field.field_type])
        is_malformed = lengths % dtype.itemsize != 0
        data, span_of_byte = _valid_spans(cursors, starts, lengths, is_malformed)
        return span_of_byte[:: dtype.itemsize], data.view(dtype)
    last_byte = cursors.data[np.maximum(starts + lengths - 1, 0)]
    is_unterminated = (lengths > 0) & (last_byte >= 0x80)
    data, span_of_byte = _valid_spans(cursors, starts, lengths, is_unterminated)
    ends = np.flatnonzero(data < 0x80) + 1
    first_bytes = np.concatenate([[0], ends[:-1]])[: len(ends)]
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    no_faults = np.zeros(len(ends), np.int32)
    elements = Cursors(padded, first_bytes.copy(), ends, no_faults, cursors.faults)
    values = elements.varint()
    is_malformed = (elements.fault != 0) | (elements.position != ends)
    rows = span_of_byte[first_bytes]
    cursors.mark_invalid(np.unique(rows[is_malformed]), MALFORMED)
    return rows, values


def _valid_spans(
    cursors: Cursors, starts: NumpyArray, lengths: NumpyArray, is_malformed: NumpyArray
) -> tuple[NumpyArray, NumpyArray]:
    """Return the concatenated bytes of valid spans, and the span of each byte."""
    cursors.mark_invalid(is_malformed, MALFORMED)
    lengths = np.where(is_malformed, 0, lengths)
    span_of_byte = np.repeat(np.arange(len(starts)), lengths)
    preceding = np.cumsum(lengths) - lengths
    indexes = np.arange(int(lengths.sum())) + np.repeat(starts - preceding, lengths)
    return cursors.data[indexes], span_of_byte


def text_builder(field_type: str, path: str) -> ArrayBuilder:

    def make(cursors: Cursors, rows: NumpyArray, spans: Any) -> Any:
        byte_array = cursors.byte_array(spans[:, 0], spans[:, 1])
        if field_type == "bytes":
            return byte_array
        zeros = np.zeros(len(rows), np.int32)
        fault_cursors = Cursors(cursors.data, zeros.copy(), zeros.copy(), zeros, cursors.faults)
        text_array = decode_utf8(fault_cursors, byte_array, path)
        cursors.propagate_faults(rows, fault_cursors.fault)
        return text_array

    return make


def enum_builder(proto_field: ProtoField, path: str) -> ArrayBuilder:
    # The first name of a number wins.
    names = dict(reversed(proto_field.symbols))
    numbers = np.array(sorted(names), np.int32)
    name_array = pa.array([names[number] for number in numbers.tolist()] + [""], pa.string())

    def make(cursors: Cursors, rows: NumpyArray, values: Any) -> Any:
        enum_numbers = _to_int32(np.ravel(values))
        indexes = np.minimum(np.searchsorted(numbers, enum_numbers), len(numbers) - 1)
        unknown = numbers[indexes] != enum_numbers
        cursors.mark_invalid(np.unique(rows[unknown]), wrong_type_fault(path))
        return name_array.take(pa.array(np.where(unknown, len(numbers), indexes)))

    return make


def _to_int32(values: NumpyArray) -> NumpyArray:
    return values.astype(np.uint32).view(np.int32)


_LOW_32_BITS = np.uint64(0xFFFFFFFF)
_NUMBER_OF_VARINT: dict[str, Callable[[NumpyArray], NumpyArray]] = {
    "int32": _to_int32,
    "sint32": lambda values: unzigzag(values & _LOW_32_BITS),
    "uint32": lambda values: values & _LOW_32_BITS,
    "int64": lambda values: values.view(np.int64),
    "sint64": unzigzag,
    "bool": lambda values: values != 0,
}
"""The conversions of varints by type; a fixed-width number and a uint64 are read as they are."""


def number_builder(proto_field: ProtoField) -> ArrayBuilder:
    dtype = FIXED.get(proto_field.field_type, np.uint64)
    convert = _NUMBER_OF_VARINT.get(proto_field.field_type, np.asarray)
    arrow_type = to_arrow_type(spark_value(proto_field))

    def make(cursors: Cursors, rows: NumpyArray, values: Any) -> Any:
        return pa.array(convert(np.ravel(values).astype(dtype))).cast(arrow_type)

    return make


# Reading of the next field of many messages

_VARINT = 0
_FIXED64 = 1
LENGTH_DELIMITED = 2
_FIXED32 = 5
_MAX_FIELD_NUMBER = 2**29 - 1


@dataclass
class FieldValues:
    """Values or spans of one field, in parts with their rows."""

    last_turn: NumpyArray
    """The turn in which the field last occurred in each row; -1 if it did not."""
    parts: list[tuple[NumpyArray, Any]] = field(default_factory=list)


def read_next_field(
    cursors: Cursors,
    active: NumpyArray,
    turn: int,
    by_number: dict[int, ProtoField],
    values_by_number: dict[int, FieldValues],
) -> None:
    """Read the next field of each active row."""
    tags = cursors.read_rows(active, Cursors.varint)
    numbers = tags >> np.uint64(3)
    cursors.mark_invalid(active[(numbers == 0) | (numbers > _MAX_FIELD_NUMBER)], MALFORMED)
    valid = cursors.fault[active] == 0
    for tag in np.unique(tags[valid]).tolist():
        rows = active[valid & (tags == np.uint64(tag))]
        proto_field = by_number.get(tag >> 3)
        part = cursors.read_rows(rows, partial(_read_value, proto_field, tag & 7))
        if part is not None:
            value_rows, values = part
            field_values = values_by_number[tag >> 3]
            field_values.parts.append((rows[value_rows], values))
            field_values.last_turn[rows[value_rows]] = turn


def _read_value(
    proto_field: ProtoField | None, wire_type: int, cursors: Cursors
) -> tuple[NumpyArray, Any] | None:
    """Return the valid rows with numbers or spans (starts, lengths); skip unknown fields."""
    values: Any
    if proto_field is not None and wire_type == wire_type_of(proto_field):
        if wire_type == LENGTH_DELIMITED:
            values = np.stack(cursors.span(_read_lengths(cursors)), axis=1)
        elif wire_type == _VARINT:
            values = cursors.varint()
        else:
            values = cursors.fixed(FIXED[proto_field.field_type])
        valid_rows = np.flatnonzero(cursors.fault == 0)
        return valid_rows, values[valid_rows]
    if proto_field is not None and proto_field.repeated and wire_type == LENGTH_DELIMITED:
        return _unpack_values(proto_field, cursors, *cursors.span(_read_lengths(cursors)))
    # A field with another wire type is unknown.
    _skip_unknown(cursors, wire_type)
    return None


def wire_type_of(proto_field: ProtoField) -> int:
    if proto_field.field_type in FIXED:
        return _FIXED64 if FIXED[proto_field.field_type].endswith("8") else _FIXED32
    return LENGTH_DELIMITED if proto_field.field_type in ("string", "bytes", "message") else _VARINT


def _read_lengths(cursors: Cursors) -> NumpyArray:
    """Read lengths, capped so that they fit into int64."""
    return np.minimum(cursors.varint(), np.uint64(2**62)).astype(np.int64)


def _skip_unknown(cursors: Cursors, wire_type: int) -> None:
    if wire_type == _VARINT:
        cursors.varint()
    elif wire_type == LENGTH_DELIMITED:
        cursors.span(_read_lengths(cursors))
    elif wire_type in (_FIXED64, _FIXED32):
        cursors.span(np.full(len(cursors), 8 if wire_type == _FIXED64 else 4))
    else:
        cursors.mark_invalid(np.arange(len(cursors)), MALFORMED)
