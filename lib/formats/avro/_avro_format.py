"""The Avro format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pyspark.sql.types import StructType

from ...columns import as_schema, require_choice
from ...errors import ArgumentError, ColumnTypeError
from .._arrow.arrow_types import require_distinct_names
from .._arrow.cursors import Cursors, Faults, ReadFunction, combine_rows, make_cursors
from .._arrow.decode_udf import (
    NO_VALUE,
    ReadValues,
    RecordFormat,
    Tombstones,
    error_texts,
    read_schema_text,
    to_struct_array,
)
from .._wire_header import read_schema_ids, rows_by_schema
from ..registered_schemas import SchemaLookup, to_schema_lookup
from ._avro_schema import AvroType, SchemaError, parse_schema
from ._avro_types import spark_type, to_avro_type
from ._resolution import arrow_type_of, has_same_name, record_fields_reader

AvroSchema: TypeAlias = str | Path
"""An Avro schema: its JSON, or the path of its file."""


def avro_format(
    schema: AvroSchema | StructType,
    *,
    writer: AvroSchema | None = None,
    registry: SchemaLookup | Mapping[int, AvroSchema] | None = None,
    tombstones: Tombstones = "dead",
) -> AvroFormat:
    """Read each value as one record in Avro's binary encoding.

    Without `registry` a value contains only a record, written with the schema `writer`, or with
    `schema` if there is no `writer`. With `registry` a value begins with the header of a schema
    registry: a zero byte and the id of the writer's schema in four bytes, big-endian.

    Records are converted to `schema`, the reader's schema, by Avro's rules of schema resolution:

    | writer and reader | result |
    |---|---|
    | a field that only the reader has | its default; without a default, incompatible schemas |
    | a field that only the writer has | ignored |
    | a field with another name, under an alias of the reader | read |
    | int, long or float as a wider number; text as bytes, bytes as text | read |
    | timestamps in milliseconds as microseconds, and vice versa | read |
    | a decimal with fewer digits and the same scale | read |
    | a union, if the reader supports only some of its types | values of these types are read |
    | an enum symbol that only the writer has | its default, otherwise "wrong type" |
    | records, enums and fixed with other names, any other type | incompatible schemas |

    `schema` can also be DDL text or a StructType. Fields are then matched by name, and the name of
    the writer's record is ignored. A field that only the reader has is null, unless it is NOT NULL.
    An enum is a STRING, a fixed is BINARY, and a TIMESTAMP requires a logical type. Decimals of any
    scale, texts and floating-point numbers are read as DECIMAL; decimals also as DOUBLE or STRING.
    Logical types of Kafka Connect and Debezium, the attribute `connect.name`, are decoded as in
    `debezium_format`: dates, timestamps in all units and in text, decimals with a variable scale.

    | Avro | Spark |
    |---|---|
    | boolean, int, long, float, double | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE |
    | string, enum, uuid; bytes, fixed | STRING; BINARY |
    | record, array, map | STRUCT, ARRAY, MAP<STRING, ...> |
    | decimal, date | DECIMAL, DATE |
    | timestamp-millis, timestamp-micros, timestamp-nanos | TIMESTAMP |
    | local-timestamp-millis, local-timestamp-micros, local-timestamp-nanos | TIMESTAMP_NTZ |
    | union of null and another type | that type, nullable; all other types are NOT NULL |
    | union of int and long, of float and double | BIGINT, DOUBLE |

    Other logical types are read as their underlying type: a time of day is a number. Nanoseconds
    are truncated to microseconds. Not supported in `schema`: other unions, recursive records,
    decimals of more than 38 digits, and field names that differ only by case; a writer may have
    them in fields that are not read, a recursive record with up to 100 levels. Not supported at
    all: arrays of elements without bytes. Dates and times are limited to the years 1 to 9999. NaN
    and infinite numbers are valid.

    | value | reason of the dead letter |
    |---|---|
    | null (a tombstone) | "null value"; with tombstones="row" a valid row of nulls |
    | no bytes | "empty value" |
    | fewer than five bytes; a first byte other than 0 | "no schema header"; "wrong magic byte" |
    | an id that the registry does not know | "unknown schema id: <id>" |
    | a schema that is invalid, or incompatible with `schema` | "incompatible schema <id>: <why>" |
    | truncated bytes | "truncated record" |
    | a number with too many bytes, a negative length, an unknown branch | "malformed record" |
    | bytes after the record | "bytes after the record" |
    | text that is not UTF-8 | "invalid UTF-8: <field>" |
    | a decimal or time out of range | "out of range: <field> = <value>" |
    | an infinite time; NaN as a DECIMAL | "not finite: <field> = <value>" |
    | another value out of range; a duplicate key in a map | "wrong type: <field>" |
    | null for a field that is not nullable | "missing field: <field>" |

    Values are decoded in batches by array operations: one field of all rows after the other.

    Args:
        schema: the fields of a row.
        writer: the schema with which values without a header were written.
        registry: a `SchemaRegistry`, or schemas by id, for values with a header.
        tombstones: whether a null value is a dead letter or a row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Apache Avro 1.12, "Specification"; Confluent, "Wire format".

    >>> clicks = avro_format('''{"type": "record", "name": "Click", "fields": [
    ...     {"name": "page", "type": "string"},
    ...     {"name": "ms", "type": ["null", "long"], "default": null}]}''')
    >>> clicks.schema.simpleString()
    'struct<page:string,ms:bigint>'
    """
    require_choice(tombstones, "tombstones", Tombstones)
    if writer is not None and registry is not None:
        raise ArgumentError(
            "invalid combination of writer and registry",
            "writer for values without a header, or registry for values with a header",
        )
    reader, row_schema = _reader_type(schema)
    if registry is not None:
        return AvroFormat(row_schema, reader, None, to_schema_lookup(registry, "AVRO"), tombstones)
    if writer is None and reader.from_spark_type:
        raise ArgumentError(
            "missing writer: schema has only columns",
            "an Avro schema, writer, or registry",
            'writer=Path("click.avsc")',
        )
    writer_type = reader if writer is None else _parse_or_raise(writer, "writer")
    try:
        record_reader(writer_type, reader)
    except SchemaError as fault:
        raise ColumnTypeError(
            f"incompatible writer: {fault}",
            "fields of the same types, and a default for each field that only the reader has",
        ) from None
    return AvroFormat(row_schema, reader, writer_type, None, tombstones)


@dataclass(frozen=True)
class AvroFormat(RecordFormat):
    """The format that `avro_format` returns; see there for its rules."""

    plan_name: ClassVar[str] = "avro"
    schema: StructType
    reader: AvroType
    writer: AvroType | None
    registry: SchemaLookup | None
    tombstones: Tombstones = "dead"

    def _read_function(self) -> ReadValues:
        return AvroReader(self.reader, self.writer, self.registry).read


def _reader_type(schema: AvroSchema | StructType) -> tuple[AvroType, StructType]:
    try:
        if isinstance(schema, Path) or (isinstance(schema, str) and schema.lstrip()[:1] in '{["'):
            reader = _parse_or_raise(schema, "schema")
            if reader.type_name != "record":
                raise ArgumentError(f"invalid schema: {reader}", "a record")
            row_schema = spark_type(reader)
            assert isinstance(row_schema, StructType)
            require_distinct_names(row_schema, "schema")
            return reader, row_schema
        columns = as_schema(schema)
        require_distinct_names(columns, "schema")
        return to_avro_type(columns, required=True), columns
    except SchemaError as fault:
        raise ColumnTypeError(
            f"unsupported schema: {fault}", "the types in the documentation of avro_format"
        ) from None


def _parse_or_raise(schema: AvroSchema, label: str) -> AvroType:
    text = read_schema_text(schema, label)
    if not isinstance(text, str):
        raise ColumnTypeError(
            f"invalid {label}: {schema!r}",
            "the JSON text of a schema, or the Path of its file",
        )
    try:
        return parse_schema(text)
    except SchemaError as fault:
        raise ArgumentError(f"invalid {label}: {fault}", "an Avro schema") from None


@dataclass
class AvroReader:
    """Reads values written with one schema, or with the schemas of their headers."""

    target_type: AvroType
    writer: AvroType | None
    schemas: SchemaLookup | None
    _readers: dict[int, ReadFunction | str] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null for invalid values, and the reasons as texts."""
        cursors = make_cursors(values, Faults(), NO_VALUE)
        record_type = arrow_type_of(self.target_type)
        if self.schemas is None:
            records = to_struct_array(cursors, self._read_fields(cursors), record_type)
            return records, error_texts(cursors, values)
        parts = []
        for schema_id, rows in rows_by_schema(cursors, read_schema_ids(cursors)):
            read = self._schema_reader(schema_id)
            if isinstance(read, str):
                cursors.mark_invalid(rows, read)
            else:
                read_records = partial(_read_records, read, record_type)
                parts.append((rows, cursors.read_rows(rows, read_records)))
        return combine_rows(parts, len(cursors), record_type), error_texts(cursors, values)

    @cached_property
    def _read_fields(self) -> ReadFunction:
        """The reader of values without a header."""
        assert self.writer is not None
        return record_reader(self.writer, self.target_type)

    def _schema_reader(self, schema_id: int) -> ReadFunction | str:
        """Return the reader for records of a schema, or the reason why there is none.

        Unknown ids are not cached, since the schema may be registered before the next batch.
        """
        if schema_id not in self._readers:
            assert self.schemas is not None
            schema = self.schemas.by_id(schema_id)
            if schema is None:
                return f"unknown schema id: {schema_id}"
            try:
                if schema.schema_type != "AVRO":
                    raise SchemaError(f"{schema.schema_type}, expected AVRO")
                writer = parse_schema(schema.text, schema.references)
                self._readers[schema_id] = record_reader(writer, self.target_type)
            except SchemaError as fault:
                self._readers[schema_id] = f"incompatible schema {schema_id}: {fault}"
        return self._readers[schema_id]


def _read_records(read_fields: ReadFunction, record_type: Any, cursors: Cursors) -> Any:
    return to_struct_array(cursors, read_fields(cursors), record_type)


def record_reader(writer: AvroType, target_type: AvroType) -> ReadFunction:
    """Return a reader for records of the writer's schema with the fields of the target type.

    Raises SchemaError for incompatible schemas.
    """
    if writer.type_name != "record":
        raise SchemaError(f"{writer}, expected a record")
    if not has_same_name(writer, target_type):
        raise SchemaError(f"record {writer.name}, expected {target_type.name}")
    return record_fields_reader(writer, target_type)
