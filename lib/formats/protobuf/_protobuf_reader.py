"""Vectorized decoding of Protocol Buffers messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from ...arrow_kernels import key_codes
from .._arrow.arrow_types import to_arrow_type
from .._arrow.cursors import (
    MALFORMED,
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
from .._arrow.decode_udf import NO_VALUE, error_texts, to_struct_array
from .._wire_header import read_schema_ids, rows_by_schema
from ..registered_schemas import SchemaLookup
from ._proto_text import ProtoTextError, parse_proto
from ._protobuf_schema import (
    TIMESTAMP,
    MessageType,
    ProtoField,
    message_name_at,
    spark_struct,
    spark_value,
)
from ._wire import (
    LENGTH_DELIMITED,
    ArrayBuilder,
    FieldValues,
    enum_builder,
    number_builder,
    read_next_field,
    text_builder,
    wire_type_of,
)

_FIRST_SECOND = (date.min - date(1970, 1, 1)).days * 86_400
_LAST_SECOND = (date.max - date(1970, 1, 1)).days * 86_400 + 86_399


@dataclass(frozen=True)
class ValueReader:
    """Reads the values of a field.

    arrow_type: that of one value, which is an element if the field is repeated.
    absent_fault: the fault of a message without the field, if it has no presence and its default
        cannot stand for its absence; else "".
    """

    arrow_type: pa.DataType
    build: ArrayBuilder
    absent_fault: str = ""


def as_declared(field: ProtoField, path: str) -> ValueReader:
    """Return the reader of values with the type that corresponds to that of the field."""
    return ValueReader(to_arrow_type(spark_value(field)), value_builder(field, path))


def message_fields_reader(
    message: MessageType,
    path: str = "",
    value_reader: Callable[[ProtoField, str], ValueReader] = as_declared,
) -> ReadFunction:
    """Return a reader for a message as a list of fields."""
    by_number = {field.number: field for field in message.fields}
    build_columns = [
        _column_builder(field, value_reader(field, child_path(path, field.name)), path)
        for field in message.fields
    ]
    oneofs = _oneofs(message)

    def read(cursors: Cursors) -> list[Any]:
        values_by_number = {number: FieldValues(np.full(len(cursors), -1)) for number in by_number}
        active = np.arange(len(cursors))
        for turn in count():
            is_unfinished = cursors.position[active] < cursors.end[active]
            active = active[is_unfinished & (cursors.fault[active] == 0)]
            if not len(active):
                break
            read_next_field(cursors, active, turn, by_number, values_by_number)
        _finish_oneofs(oneofs, values_by_number)
        return [
            build_column(cursors, values_by_number[field.number])
            for build_column, field in zip(build_columns, message.fields, strict=True)
        ]

    return read


def _oneofs(message: MessageType) -> list[list[ProtoField]]:
    members_by_oneof: dict[int, list[ProtoField]] = {}
    for proto_field in message.fields:
        if proto_field.oneof is not None:
            members_by_oneof.setdefault(proto_field.oneof, []).append(proto_field)
    return [members for members in members_by_oneof.values() if len(members) > 1]


def _finish_oneofs(
    oneofs: list[list[ProtoField]], values_by_number: dict[int, FieldValues]
) -> None:
    """Drop all members of a oneof except the last one in each row."""
    for members in oneofs:
        values_of_members = [values_by_number[proto_field.number] for proto_field in members]
        newest_turn = np.max([each.last_turn for each in values_of_members], axis=0)
        for field_values in values_of_members:
            is_newest = field_values.last_turn == newest_turn
            field_values.parts = [
                (rows[is_newest[rows]], values[is_newest[rows]])
                for rows, values in field_values.parts
            ]


def _column_builder(
    field: ProtoField, value_reader: ValueReader, path: str
) -> Callable[[Cursors, FieldValues], Any]:
    arrow_type, build_values = value_reader.arrow_type, value_reader.build
    is_map = field.message is not None and field.message.is_map_entry

    def repeated(cursors: Cursors, field_values: FieldValues) -> Any:
        rows, values = _sorted_values(field_values)
        array = build_values(cursors, rows, values)
        if not is_map:
            return make_list_array([(rows, array)], len(cursors), arrow_type)
        # The last value of a duplicate key wins.
        codes = key_codes(rows, [array.field(0)])
        _, from_last = np.unique(codes[::-1], return_index=True)
        latest = np.sort(len(codes) - 1 - from_last)
        parts = [(rows[latest], array.take(pa.array(latest)))]
        offsets, entries = group_elements(parts, len(cursors), arrow_type)
        return pa.MapArray.from_arrays(offsets, *entries.flatten())

    def singular(cursors: Cursors, field_values: FieldValues) -> Any:
        rows, values = _sorted_values(field_values)
        if field.field_type == "message":
            rows, array = _merge_messages(cursors, rows, values, build_values)
        else:
            ends = np.flatnonzero(np.diff(rows, append=-1))
            rows = rows[ends]
            array = build_values(cursors, rows, values[ends])
        if field.required:
            is_present = np.zeros(len(cursors), bool)
            is_present[rows] = True
            cursors.mark_invalid(~is_present, f"missing field: {child_path(path, field.name)}")
        column = combine_rows([(rows, array)], len(cursors), arrow_type)
        if field.has_presence or not column.null_count:
            return column
        if value_reader.absent_fault:
            is_absent = column.is_null().to_numpy(zero_copy_only=False)
            cursors.mark_invalid(is_absent, value_reader.absent_fault)
        return _with_defaults(column, field, cursors, build_values)

    return repeated if field.repeated else singular


def _sorted_values(field_values: FieldValues) -> tuple[NumpyArray, Any]:
    """Return rows and values sorted by row; the values of a row stay in order."""
    if not field_values.parts:
        return np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    rows = np.concatenate([rows for rows, _ in field_values.parts])
    values = np.concatenate([values for _, values in field_values.parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], values[order]


def _merge_messages(
    cursors: Cursors, rows: NumpyArray, spans: Any, build_values: ArrayBuilder
) -> tuple[NumpyArray, Any]:
    """Return one message per row, merged if the field occurs several times."""
    distinct_rows = np.unique(rows)
    if len(distinct_rows) == len(rows):
        return rows, build_values(cursors, rows, spans)
    merged = dict.fromkeys(distinct_rows.tolist(), b"")
    for row, (start, length) in zip(rows.tolist(), spans.tolist(), strict=True):
        merged[row] += cursors.data[start : start + length].tobytes()
    contents = pa.array(list(merged.values()), pa.binary())
    merged_cursors = make_cursors(contents, cursors.faults, MALFORMED)
    starts = merged_cursors.position
    merged_spans = np.stack([starts, merged_cursors.end - starts], axis=1)
    array = build_values(merged_cursors, np.arange(len(distinct_rows)), merged_spans)
    cursors.propagate_faults(distinct_rows, merged_cursors.fault)
    return distinct_rows, array


def _with_defaults(
    column: Any, field: ProtoField, cursors: Cursors, build_values: ArrayBuilder
) -> Any:
    """Replace nulls by the default, for a field without presence."""
    default_value: NumpyArray = np.zeros(1, np.int64)
    if wire_type_of(field) == LENGTH_DELIMITED:
        default_value = np.zeros((1, 2), np.int64)
    elif field.field_type == "enum":
        default_value = np.array([field.symbols[0][0]])
    empty_cursors = make_cursors(pa.array([b""], pa.binary()), cursors.faults, MALFORMED)
    default = build_values(empty_cursors, np.zeros(1, np.int64), default_value)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    index = np.where(missing, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, default]).take(pa.array(index))


def value_builder(field: ProtoField, path: str) -> ArrayBuilder:
    """Return a builder of values with the type that corresponds to that of the field."""
    if field.message is not None:
        return message_builder(_message_reader(field.message, path))
    if field.field_type in ("string", "bytes"):
        return text_builder(field.field_type, path)
    if field.field_type == "enum":
        return enum_builder(field, path)
    return number_builder(field)


def _message_reader(message: MessageType, path: str) -> ReadFunction:
    """Return a reader of messages as structs, or as timestamps."""
    if message.name == TIMESTAMP:
        return partial(_read_timestamp, path=path)
    read_fields = message_fields_reader(message, path)
    struct_type = to_arrow_type(spark_struct(message))
    return lambda cursors: pa.StructArray.from_arrays(
        read_fields(cursors), fields=list(struct_type)
    )


def message_builder(read: ReadFunction) -> ArrayBuilder:
    """Return a builder of the values that a reader returns for the bytes of messages."""

    def make(cursors: Cursors, rows: NumpyArray, spans: Any) -> Any:
        no_faults = np.zeros(len(rows), np.int32)
        ends = spans[:, 0] + spans[:, 1]
        message_cursors = Cursors(cursors.data, spans[:, 0].copy(), ends, no_faults, cursors.faults)
        array = read(message_cursors)
        cursors.propagate_faults(rows, message_cursors.fault)
        return array

    return make


_SECONDS = ProtoField("seconds", 1, "int64")
_NANOS = ProtoField("nanos", 2, "int32")
_TIMESTAMP_MESSAGE = MessageType(f"{TIMESTAMP}.", (_SECONDS, _NANOS))


def _read_timestamp(cursors: Cursors, path: str) -> Any:
    """Read timestamps of the years 1 to 9999, truncated to microseconds."""
    seconds, nanos = message_fields_reader(_TIMESTAMP_MESSAGE, path)(cursors)
    seconds = seconds.to_numpy(zero_copy_only=False)
    nanos = nanos.to_numpy(zero_copy_only=False)
    invalid = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND)
    invalid |= (nanos < 0) | (nanos > 999_999_999)
    cursors.mark_invalid(invalid, wrong_type_fault(path))
    micros = np.where(invalid, 0, seconds) * 1_000_000 + np.where(invalid, 0, nanos) // 1_000
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


_MAX_INDEXES = 64


@dataclass
class ProtobufReader:
    """Decodes values as messages; the header of a value, if any, must name this message."""

    message: MessageType
    schema: StructType
    schemas: SchemaLookup | None
    _mismatches: dict[tuple[int, tuple[int, ...]], str | None] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null for invalid values, and the reasons as texts."""
        cursors = make_cursors(values, Faults(), NO_VALUE)
        if self.schemas is not None:
            self._check_header(cursors)
        fields = message_fields_reader(self.message)(cursors)
        by_name = dict(zip((field.name for field in self.message.fields), fields, strict=True))
        columns = []
        for column in self.schema:
            columns.append(by_name[column.name])
            if not column.nullable:
                missing = columns[-1].is_null().to_numpy(zero_copy_only=False)
                cursors.mark_invalid(missing, f"missing field: {column.name}")
        records = to_struct_array(cursors, columns, to_arrow_type(self.schema))
        if self.schemas is None:
            # Without a header, no bytes are a message without fields.
            return records, cursors.faults.texts(cursors.fault)
        return records, error_texts(cursors, values)

    def _check_header(self, cursors: Cursors) -> None:
        for schema_id, rows in rows_by_schema(cursors, read_schema_ids(cursors)):
            for indexes, index_rows in cursors.read_rows(rows, read_message_indexes):
                mismatch = self._mismatch(schema_id, indexes)
                if mismatch is not None:
                    cursors.mark_invalid(rows[index_rows], mismatch)

    def _mismatch(self, schema_id: int, indexes: tuple[int, ...]) -> str | None:
        """Return the reason if the header names another message, otherwise None."""
        cache_key = (schema_id, indexes)
        if cache_key not in self._mismatches:
            assert self.schemas is not None
            schema = self.schemas.by_id(schema_id)
            if schema is None:
                return f"unknown schema id: {schema_id}"
            is_protobuf = schema.schema_type in ("PROTOBUF", "")
            name = _declared_name(schema.text, indexes) if is_protobuf else None
            mismatch = f"wrong message in schema {schema_id}: {name or list(indexes)}"
            self._mismatches[cache_key] = None if name == self.message.name else mismatch
        return self._mismatches[cache_key]


def _declared_name(text: str, indexes: tuple[int, ...]) -> str | None:
    try:
        return message_name_at(parse_proto(text), indexes)
    except ProtoTextError:
        return None


def read_message_indexes(cursors: Cursors) -> list[tuple[tuple[int, ...], Any]]:
    """Return the distinct message indexes of the values, with their rows."""
    lengths = cursors.zigzag()
    cursors.mark_invalid((lengths < 0) | (lengths > _MAX_INDEXES), MALFORMED)
    # An empty list of indexes is the first message.
    indexes = np.zeros((len(cursors), int(lengths.max(initial=0)) + 1), np.int64)
    for position in range(indexes.shape[1] - 1):
        rows = np.flatnonzero((cursors.fault == 0) & (lengths > position))
        indexes[rows, position] = cursors.read_rows(rows, Cursors.zigzag)
    valid = cursors.fault == 0
    keyed = np.column_stack([np.maximum(lengths, 1), indexes])
    distinct = np.unique(keyed[valid], axis=0)
    return [
        (tuple(row[1 : 1 + row[0]].tolist()), np.flatnonzero(valid & (keyed == row).all(axis=1)))
        for row in distinct
    ]
