"""The format of Confluent's ProtobufConverter of Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...columns import as_schema, require_choice
from ...errors import ArgumentError, ColumnTypeError
from .._arrow.arrow_types import require_distinct_names, to_arrow_type
from .._arrow.cursors import (
    Cursors,
    Faults,
    NumpyArray,
    ReadFunction,
    child_path,
    combine_rows,
    make_cursors,
)
from .._arrow.decode_udf import (
    NO_VALUE,
    ReadValues,
    RecordFormat,
    Tombstones,
    error_texts,
    to_struct_array,
)
from .._connect_types import out_of_range_fault
from .._logical_values import (
    dates_of_days,
    numbers_of_texts,
    read_decimals,
    times_of_texts,
    timestamps_of_numbers,
)
from .._wire_header import read_schema_ids, rows_by_schema
from ..connect_json import Timestamps
from ..registered_schemas import RegisteredSchema, SchemaLookup, to_schema_lookup
from ._proto_text import (
    DATE,
    DECIMAL,
    TIME_OF_DAY,
    VARIABLE_DECIMAL,
    WRAPPERS,
    ProtoTextError,
    parse_registered,
)
from ._protobuf_reader import (
    ValueReader,
    as_declared,
    message_builder,
    message_fields_reader,
    read_message_indexes,
    value_builder,
)
from ._protobuf_schema import (
    TIMESTAMP,
    DescriptorError,
    MessageType,
    ProtoField,
    load_message,
    message_name_at,
    spark_value,
)
from ._wire import ArrayBuilder

_SCALARS = (
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    BooleanType,
    StringType,
    BinaryType,
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
)
Convert: TypeAlias = Callable[[Cursors, Any], Any]
"""Returns an array in the type of a column; the cursors get the faults of its values."""


def connect_protobuf_format(
    columns: str | StructType,
    *,
    registry: SchemaLookup | Mapping[int, str | Path],
    timestamps: Timestamps | None = None,
    tombstones: Tombstones = "dead",
) -> ConnectProtobufFormat:
    """Read each value as a Protobuf message that Kafka Connect's ProtobufConverter wrote.

    A value begins with the header of a schema registry: a zero byte, the id of a schema, and the
    indexes of the message in that schema. It is decoded by that schema, because the converter
    numbers the fields of each version of a table from 1. Fields are matched with `columns` by name;
    a field that the message does not have is null, unless the column is NOT NULL.

    The converter distinguishes nulls only with the property `optional.for.nullables=true` or
    `wrapper.for.nullables=true`: without them, a null and 0, "" or false are the same bytes. If no
    field of a message shows that one of them was set, such a value of a nullable column is a dead
    letter; in a column that is NOT NULL it is 0, "" or false.

    | Protobuf | column |
    |---|---|
    | int32; int64, uint32 | INT or BIGINT; BIGINT |
    | float, double | FLOAT or DOUBLE; DOUBLE |
    | bool, string, bytes, enum | BOOLEAN, STRING, BINARY, STRING |
    | google.protobuf.Int32Value and the other wrappers | the type of the wrapped value |
    | confluent.type.Decimal, Debezium's VariableScaleDecimal | DECIMAL, DOUBLE, FLOAT or STRING |
    | string, double | DECIMAL |
    | google.type.Date; a number of days; ISO 8601 text | DATE |
    | google.protobuf.Timestamp; a number by `timestamps`; text | TIMESTAMP, TIMESTAMP_NTZ |
    | google.type.TimeOfDay | INT or BIGINT, milliseconds of the day |
    | message, repeated, map | STRUCT, ARRAY, MAP |

    The converter keeps no logical types of Debezium: a MicroTimestamp is a plain int64.

    | value | reason of the dead letter |
    |---|---|
    | null (a tombstone) | "null value"; with tombstones="row" a valid row of nulls |
    | fewer than five bytes; a first byte other than 0 | "no schema header"; "wrong magic byte" |
    | an id that the registry does not know | "unknown schema id: <id>" |
    | a schema that is invalid, or incompatible with `columns` | "incompatible schema <id>: <why>" |
    | 0, "" or false that can be a null | "null or default: <field>" |
    | truncated bytes; a malformed number, field number or group | as in `protobuf_format` |
    | text that is not UTF-8; a number, date or time out of range | as in `avro_format` |
    | null for a field that is NOT NULL | "missing field: <field>" |

    Args:
        columns: the fields to read, as DDL text or StructType.
        registry: a `SchemaRegistry`, or texts of .proto files by schema id.
        timestamps: the unit of timestamps that are numbers: "milliseconds", "microseconds" or
            "nanoseconds". None accepts no numbers.
        tombstones: whether a null value is a dead letter or a row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Confluent, "Protobuf Schema Serializer and Deserializer" and "Wire format"; Protocol
    Buffers, "Encoding".

    >>> text = 'syntax = "proto3"; message Key { int32 id = 1; }'
    >>> connect_protobuf_format("id INT NOT NULL", registry={1: text}).schema.simpleString()
    'struct<id:int>'
    """
    require_choice(tombstones, "tombstones", Tombstones)
    if timestamps is not None:
        require_choice(timestamps, "timestamps", Timestamps)
    schema = as_schema(columns, "columns")
    require_distinct_names(schema, "columns")
    for each in schema:
        _require_readable(each.dataType, each.name)
    schemas = to_schema_lookup(registry, "PROTOBUF")
    if schemas is None:
        raise ArgumentError(
            f"invalid registry: {registry!r}",
            "a SchemaRegistry, or a mapping of schemas by id",
            'SchemaRegistry("http://localhost:8081")',
        )
    nullable = frozenset(_nullable_paths(schema, ""))
    return ConnectProtobufFormat(schema, schemas, timestamps, nullable, tombstones)


def _nullable_paths(schema: StructType, path: str) -> Iterator[str]:
    """Yield the paths of the nullable fields of a struct and of the structs in it."""
    for each in schema:
        if each.nullable:
            yield child_path(path, each.name)
        if isinstance(each.dataType, StructType):
            yield from _nullable_paths(each.dataType, child_path(path, each.name))


def _require_readable(data_type: DataType, name: str) -> None:
    """Raise ColumnTypeError for a type that no message has."""
    if isinstance(data_type, ArrayType):
        _require_readable(data_type.elementType, name)
    elif isinstance(data_type, MapType):
        _require_readable(data_type.keyType, name)
        _require_readable(data_type.valueType, name)
    elif isinstance(data_type, StructType):
        for each in data_type:
            _require_readable(each.dataType, child_path(name, each.name))
    elif not isinstance(data_type, _SCALARS):
        raise ColumnTypeError(
            f"invalid type of column {name!r}: {data_type.simpleString()}",
            "the types in the documentation of connect_protobuf_format",
        )


@dataclass(frozen=True)
class ConnectProtobufFormat(RecordFormat):
    """The format that `connect_protobuf_format` returns; see there for its rules.

    nullable_paths: the fields whose defaults are dead letters if they can be nulls.
    """

    plan_name: ClassVar[str] = "connect_protobuf"
    schema: StructType
    registry: SchemaLookup
    timestamps: Timestamps | None
    nullable_paths: frozenset[str] = field(compare=False)
    tombstones: Tombstones = "dead"

    def checking_nulls(self, columns: StructType, path: str) -> ConnectProtobufFormat:
        """Return the format that rejects ambiguous defaults of these columns only."""
        return replace(self, nullable_paths=frozenset(_nullable_paths(columns, path)))

    def _read_function(self) -> ReadValues:
        reader = ConnectProtobufReader(
            self.schema, self.registry, self.timestamps, self.nullable_paths
        )
        return reader.read


@dataclass
class ConnectProtobufReader:
    """Decodes each value by the schema of its header."""

    schema: StructType
    schemas: SchemaLookup
    timestamps: Timestamps | None
    nullable_paths: frozenset[str]
    _readers: dict[tuple[int, tuple[int, ...]], ReadFunction | str] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null for invalid values, and the reasons as texts."""
        cursors = make_cursors(values, Faults(), NO_VALUE)
        parts = []
        for schema_id, rows in rows_by_schema(cursors, read_schema_ids(cursors)):
            for indexes, index_rows in cursors.read_rows(rows, read_message_indexes):
                message_rows = rows[index_rows]
                read = self._message_reader(schema_id, indexes)
                if isinstance(read, str):
                    cursors.mark_invalid(message_rows, read)
                else:
                    parts.append((message_rows, cursors.read_rows(message_rows, read)))
        records = combine_rows(parts, len(cursors), to_arrow_type(self.schema))
        return records, error_texts(cursors, values)

    def _message_reader(self, schema_id: int, indexes: tuple[int, ...]) -> ReadFunction | str:
        """Return the reader for a message of a schema, or the reason why there is none.

        Unknown ids are not cached, since the schema may be registered before the next batch.
        """
        if (schema_id, indexes) not in self._readers:
            schema = self.schemas.by_id(schema_id)
            if schema is None:
                return f"unknown schema id: {schema_id}"
            try:
                message = _load_written(schema, indexes)
                nullable = frozenset() if _writes_nulls(message) else self.nullable_paths
                columns = _Columns(self.timestamps, nullable)
                self._readers[schema_id, indexes] = columns.reader(message, self.schema, "")
            except DescriptorError as fault:
                self._readers[schema_id, indexes] = f"incompatible schema {schema_id}: {fault}"
        return self._readers[schema_id, indexes]


def _load_written(schema: RegisteredSchema, indexes: tuple[int, ...]) -> MessageType:
    """Return the message at an index path of a schema; raise DescriptorError if there is none."""
    if schema.schema_type not in ("PROTOBUF", ""):
        raise DescriptorError(f"{schema.schema_type}, expected PROTOBUF")
    try:
        files = parse_registered(schema)
    except ProtoTextError as fault:
        raise DescriptorError(str(fault)) from None
    name = message_name_at(files[0], indexes)
    if name is None:
        raise DescriptorError(f"no message at {list(indexes)}")
    return load_message(files, name).message


def _writes_nulls(message: MessageType) -> bool:
    """Return whether some field shows that the converter distinguishes nulls from defaults."""
    return any(
        (each.message is None and each.has_presence)
        or (each.message is not None and (_is_wrapper(each.message) or _writes_nulls(each.message)))
        for each in message.fields
    )


def _is_wrapper(message: MessageType) -> bool:
    return message.name.removeprefix("google.protobuf.") in WRAPPERS


@dataclass(frozen=True)
class _Columns:
    """Makes readers of messages with the columns of a schema.

    timestamps: the unit of timestamps that are numbers.
    nullable_paths: the fields whose defaults can be nulls.
    """

    timestamps: Timestamps | None
    nullable_paths: frozenset[str]

    def reader(self, message: MessageType, schema: StructType, path: str) -> ReadFunction:
        """Return a reader of messages as structs of the columns; raise DescriptorError."""
        wanted = [each for each in message.fields if each.name in schema.names]
        oneofs = {each.oneof for each in wanted if each.oneof is not None}
        fields = tuple(each for each in message.fields if each in wanted or each.oneof in oneofs)
        read = replace(message, fields=fields).with_fields(schema.names)
        names = [each.name for each in read.fields]

        def value_reader(proto_field: ProtoField, field_path: str) -> ValueReader:
            if proto_field.name not in schema.names:
                return as_declared(proto_field, field_path)
            return self._column_reader(proto_field, schema[proto_field.name].dataType, field_path)

        read_fields = message_fields_reader(read, path, value_reader)
        struct_type = to_arrow_type(schema)

        def read_columns(cursors: Cursors) -> Any:
            values = dict(zip(names, read_fields(cursors), strict=True))
            columns = []
            for column, arrow_field in zip(schema, struct_type, strict=True):
                values.setdefault(column.name, pa.nulls(len(cursors), arrow_field.type))
                columns.append(values[column.name])
                if not column.nullable:
                    is_missing = columns[-1].is_null().to_numpy(zero_copy_only=False)
                    missing = f"missing field: {child_path(path, column.name)}"
                    cursors.mark_invalid(is_missing, missing)
            return to_struct_array(cursors, columns, struct_type)

        return read_columns

    def _column_reader(
        self, proto_field: ProtoField, data_type: DataType, path: str
    ) -> ValueReader:
        """Return the reader of a field, or of its elements, in the type of a column."""
        is_map = proto_field.message is not None and proto_field.message.is_map_entry
        element: DataType | None = data_type
        if is_map:
            element = None
            if isinstance(data_type, MapType):
                element = StructType().add("key", data_type.keyType)
                element = element.add("value", data_type.valueType)
        elif proto_field.repeated:
            element = data_type.elementType if isinstance(data_type, ArrayType) else None
        build = None if element is None else self._value_builder(proto_field, element, path)
        if element is None or build is None:
            kind = "repeated " if proto_field.repeated else ""
            written = proto_field.message.name if proto_field.message else proto_field.field_type
            expected = data_type.simpleString()
            raise DescriptorError(f"{path} is {kind}{written}, expected {expected}")
        is_ambiguous = path in self.nullable_paths
        absent_fault = f"null or default: {path}" if is_ambiguous else ""
        return ValueReader(to_arrow_type(element), build, absent_fault)

    def _value_builder(
        self, proto_field: ProtoField, data_type: DataType, path: str
    ) -> ArrayBuilder | None:
        """Return the builder of values in another type; None if they cannot be converted."""
        message = proto_field.message
        is_row = message is not None and not _is_value(message)
        if is_row and isinstance(data_type, StructType):
            assert message is not None
            if message.fault and not message.fields:
                raise DescriptorError(message.fault)
            return message_builder(self.reader(message, data_type, path))
        convert = None if is_row else self._conversion(proto_field, data_type, path)
        return None if convert is None else _converted(value_builder(proto_field, path), convert)

    def _conversion(
        self, proto_field: ProtoField, data_type: DataType, path: str
    ) -> Convert | None:
        """Return the conversion of values to the type of a column; None if there is none."""
        if proto_field.message is not None:
            return self._message_conversion(proto_field.message, data_type, path)
        output = to_arrow_type(data_type)
        written = spark_value(proto_field)
        is_time = isinstance(data_type, TimestampType | TimestampNTZType)
        is_integer = isinstance(written, IntegerType | LongType)
        if written == data_type:
            return lambda cursors, values: values
        if is_integer and isinstance(data_type, DateType):
            return lambda cursors, days: dates_of_days(cursors, days.cast(pa.int64()), path)
        if isinstance(written, LongType) and is_time and self.timestamps is not None:
            unit = self.timestamps
            return lambda cursors, numbers: timestamps_of_numbers(
                cursors, numbers, unit, output, path
            )
        if isinstance(written, StringType) and (is_time or isinstance(data_type, DateType)):
            return lambda cursors, texts: times_of_texts(cursors, texts, output, path)
        if isinstance(written, StringType | FloatType | DoubleType) and isinstance(
            data_type, DecimalType
        ):
            return lambda cursors, numbers: numbers_of_texts(
                cursors, numbers.cast(pa.string()), output, path
            )
        if (written, data_type) in (
            (IntegerType(), LongType()),
            (FloatType(), DoubleType()),
        ):
            return lambda cursors, numbers: numbers.cast(output)
        return None

    def _message_conversion(
        self, message: MessageType, data_type: DataType, path: str
    ) -> Convert | None:
        output = to_arrow_type(data_type)
        is_time = isinstance(data_type, TimestampType | TimestampNTZType)
        if message.name == TIMESTAMP:
            # Both are numbers of microseconds.
            return (lambda cursors, times: times.view(output)) if is_time else None
        if message.name == DATE:
            is_date = isinstance(data_type, DateType)
            return (lambda cursors, parts: _dates(cursors, parts, path)) if is_date else None
        if message.name == TIME_OF_DAY:
            is_number = isinstance(data_type, IntegerType | LongType)
            return (lambda cursors, parts: _milliseconds(parts, output)) if is_number else None
        if _is_decimal(message):
            is_read = isinstance(data_type, DecimalType | DoubleType | FloatType | StringType)
            return (
                (lambda cursors, parts: _decimals(cursors, parts, output, path))
                if is_read
                else None
            )
        (wrapped,) = message.fields
        convert = self._conversion(wrapped, data_type, path)
        if convert is None:
            return None
        return lambda cursors, wrappers: convert(cursors, wrappers.field(0))


def _is_value(message: MessageType) -> bool:
    """Return whether a message is a single value."""
    is_time = message.name in (TIMESTAMP, DATE, TIME_OF_DAY)
    return _is_wrapper(message) or is_time or _is_decimal(message)


def _is_decimal(message: MessageType) -> bool:
    is_variable = message.name.rpartition(".")[2] == VARIABLE_DECIMAL
    has_parts = {"value", "scale"} <= {each.name for each in message.fields}
    return message.name == DECIMAL or (is_variable and has_parts)


def _converted(build: ArrayBuilder, convert: Convert) -> ArrayBuilder:
    """Return a builder whose values are converted."""

    def make(cursors: Cursors, rows: NumpyArray, values: Any) -> Any:
        built = build(cursors, rows, values)
        zeros = np.zeros(len(rows), np.int64)
        # A value with a fault keeps it.
        faults = cursors.fault[rows]
        value_cursors = Cursors(cursors.data, zeros, zeros.copy(), faults, cursors.faults)
        converted = convert(value_cursors, built)
        cursors.propagate_faults(rows, value_cursors.fault)
        return converted

    return make


def _decimals(cursors: Cursors, parts: Any, output: pa.DataType, path: str) -> Any:
    """Return the decimals of structs of an unscaled integer in bytes and a scale."""
    contents = parts.field("value").fill_null(b"")
    scales = parts.field("scale").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    spans = make_cursors(contents, cursors.faults, NO_VALUE)
    starts = spans.position
    decimals = read_decimals(spans, starts, spans.end - starts, scales, output, path)
    cursors.propagate_faults(np.arange(len(cursors)), spans.fault)
    return decimals


def _dates(cursors: Cursors, parts: Any, path: str) -> Any:
    """Return the dates of structs of year, month and day."""
    year, month, day = (_numbers(parts, name) for name in ("year", "month", "day"))
    is_month = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12)
    months = np.where(is_month, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    first, next_first = (
        each.astype("datetime64[D]").astype(np.int64) for each in (months, months + 1)
    )
    is_date = is_month & (day >= 1) & (day <= next_first - first)
    for row in np.flatnonzero(~is_date & (cursors.fault == 0)):
        text = f"{year[row]:04}-{month[row]:02}-{day[row]:02}"
        cursors.mark_invalid(np.array([row]), out_of_range_fault(path, text))
    days = np.where(is_date, first + day - 1, 0).astype(np.int32)
    return pa.array(days, mask=~is_date).view(pa.date32())


def _milliseconds(parts: Any, output: pa.DataType) -> Any:
    """Return the milliseconds of the day of structs of hours, minutes, seconds and nanos."""
    hours, minutes, seconds, nanos = (
        _numbers(parts, name) for name in ("hours", "minutes", "seconds", "nanos")
    )
    total = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + nanos // 1_000_000
    return pa.array(total).cast(output, safe=False)


def _numbers(parts: Any, name: str) -> NumpyArray:
    return parts.field(name).to_numpy(zero_copy_only=False).astype(np.int64)
