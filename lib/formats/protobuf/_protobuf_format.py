"""The Protobuf format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pyspark.sql.types import StructField, StructType

from ...columns import as_schema, require_choice
from ...errors import ArgumentError, ColumnTypeError
from .._arrow.arrow_types import require_distinct_names
from .._arrow.decode_udf import ReadValues, RecordFormat, Tombstones
from .._casts import nullable_type
from ..registered_schemas import SchemaLookup, to_schema_lookup
from ._protobuf_reader import ProtobufReader
from ._protobuf_schema import (
    DeclaredMessage,
    DescriptorError,
    load_message,
    parse_descriptor_set,
    spark_struct,
)


def protobuf_format(
    descriptor_set: bytes | Path,
    message: str,
    *,
    columns: str | StructType | None = None,
    registry: SchemaLookup | Mapping[int, str | Path] | None = None,
    tombstones: Tombstones = "dead",
) -> ProtobufFormat:
    """Read each value as one Protocol Buffers message, proto2 or proto3.

    The descriptor set is written by `protoc --include_imports --descriptor_set_out=FILE`. Unknown
    fields are ignored, so that messages of older and newer schemas become rows with the same
    columns.

    With `registry` a value begins with the header of a schema registry: a zero byte, the id of a
    schema, and the indexes of the message in that schema. The indexes must lead to `message`, which
    is decoded with the descriptor set.

    | Protobuf | Spark |
    |---|---|
    | int32, sint32, sfixed32 | INT |
    | int64, sint64, sfixed64, uint32, fixed32 | BIGINT |
    | uint64, fixed64 | DECIMAL(20, 0) |
    | float, double, bool, string, bytes | FLOAT, DOUBLE, BOOLEAN, STRING, BINARY |
    | enum | STRING, the name of the symbol |
    | google.protobuf.Timestamp | TIMESTAMP, truncated to microseconds |
    | message, repeated, map | STRUCT, ARRAY, MAP |

    A missing field has its default: 0, "", the first symbol, an empty array. It is null if the
    field has presence: `optional`, members of a oneof, messages, and all fields of proto2. If a
    field or a oneof occurs several times, the last value wins; messages are merged. Other
    well-known types are read as plain messages.

    Not supported: groups and editions; recursive messages, such as google.protobuf.Struct, and
    messages without fields, unless `columns` leaves them out.

    | value | reason of the dead letter |
    |---|---|
    | null (a tombstone) | "null value"; with tombstones="row" a valid row of nulls |
    | no bytes, without `registry` | a valid row of defaults |
    | fewer than five bytes; a first byte other than 0 | "no schema header"; "wrong magic byte" |
    | an id that the registry does not know | "unknown schema id: <id>" |
    | another message, or a schema of another type | "wrong message in schema <id>: <message>" |
    | truncated bytes | "truncated record" |
    | a number with too many bytes, a field number 0, a group | "malformed record" |
    | text that is not UTF-8 | "invalid UTF-8: <field>" |
    | an unknown enum number, a time outside the years 1 to 9999 | "wrong type: <field>" |
    | a required (proto2) or NOT NULL field that is missing | "missing field: <field>" |

    Values are decoded in batches by array operations: the first field of all rows, then the second.
    A single value with 100,000 unpacked elements takes seconds.

    Args:
        descriptor_set: the bytes of the descriptor set, or the Path of its file.
        message: the full name of the message, such as "shop.Click".
        columns: the fields to read, as DDL text or StructType with the types of the table above; by
            default all fields.
        registry: a `SchemaRegistry`, or texts of .proto files by schema id, for values with a
            header.
        tombstones: whether a null value is a dead letter or a row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Protocol Buffers, "Encoding"; Confluent, "Wire format".

    >>> from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    >>> file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    >>> click = file.message_type.add(name="Click")
    >>> _ = click.field.add(name="page", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    >>> descriptor_set = FileDescriptorSet(file=[file]).SerializeToString()
    >>> protobuf_format(descriptor_set, "shop.Click").schema.simpleString()
    'struct<page:string>'
    """
    require_choice(tombstones, "tombstones", Tombstones)
    content = _read_descriptor_set(descriptor_set)
    selected = None if columns is None else as_schema(columns, "columns")
    try:
        declaration = load_message(parse_descriptor_set(content), message)
        if selected is not None:
            read = declaration.message.with_fields(selected.names)
            declaration = replace(declaration, message=read)
        row_schema = spark_struct(declaration.message)
    except DescriptorError as fault:
        raise ArgumentError(
            f"invalid descriptor_set for message {message!r}: {fault}",
            "the output of protoc, with types in the documentation of protobuf_format",
            "protoc --include_imports --descriptor_set_out=FILE, or columns= with other fields",
        ) from None
    require_distinct_names(row_schema, "message")
    selected_schema = row_schema if selected is None else _select_columns(selected, row_schema)
    schemas = to_schema_lookup(registry, "PROTOBUF")
    return ProtobufFormat(selected_schema, declaration, schemas, tombstones)


@dataclass(frozen=True)
class ProtobufFormat(RecordFormat):
    """The format that `protobuf_format` returns; see there for its rules."""

    plan_name: ClassVar[str] = "protobuf"
    schema: StructType
    declaration: DeclaredMessage
    registry: SchemaLookup | None
    tombstones: Tombstones = "dead"

    def _read_function(self) -> ReadValues:
        return ProtobufReader(self.declaration.message, self.schema, self.registry).read


def _read_descriptor_set(descriptor_set: bytes | Path) -> bytes:
    if isinstance(descriptor_set, bytes):
        return descriptor_set
    if not isinstance(descriptor_set, Path):
        raise ColumnTypeError(
            f"invalid descriptor_set: {descriptor_set!r}",
            "the bytes of a descriptor set, or the Path of its file",
            'Path("clicks.desc")',
        )
    try:
        return descriptor_set.read_bytes()
    except OSError as fault:
        raise ArgumentError(
            f"invalid descriptor_set: cannot read {descriptor_set} ({type(fault).__name__})",
            "a readable file, as protoc --descriptor_set_out writes it",
        ) from None


def _select_columns(columns: StructType, row_schema: StructType) -> StructType:
    """Return the fields of the message for the columns, with the nullability of the columns."""
    fields = []
    for column in columns:
        if column.name not in row_schema.names:
            raise ArgumentError(
                f"invalid column: {column.name!r}",
                f"one of the fields {', '.join(row_schema.names)}",
            )
        data_type = row_schema[column.name].dataType
        if nullable_type(column.dataType) != nullable_type(data_type):
            raise ColumnTypeError(
                f"invalid type of column {column.name!r}: {column.dataType.simpleString()}",
                data_type.simpleString(),
            )
        fields.append(StructField(column.name, data_type, column.nullable))
    return StructType(fields)
