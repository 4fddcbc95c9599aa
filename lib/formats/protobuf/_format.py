"""Protobuf values, with the descriptor set of their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from ...columns import schema_of
from ...errors import ArgumentError, ColumnTypeError
from .._arrow.batches import Tombstones, decoded, diagnosed, require_tombstones
from .._arrow.types import arrow_of, require_names
from .._fitting import nullable
from .._schema_ids import Listed, Schemas, Written, schemas
from ._reader import ProtoReader
from ._schema import Declared, DescriptorError, declared, spark_struct


def protobuf_format(
    descriptor_set: bytes | Path,
    message: str,
    *,
    columns: str | StructType | None = None,
    registry: Schemas | Mapping[int, str | Path] | None = None,
    tombstones: Tombstones = "dead",
) -> ProtobufFormat:
    """Read each value as one message of Protocol Buffers, proto2 or proto3.

    The descriptor set is what `protoc --include_imports --descriptor_set_out=FILE` writes. Fields
    that it does not know are passed over, so that old and new messages become rows of the same
    columns.

    With `registry` a value begins with the header of a schema registry's clients: a byte 0, the id
    of a schema, and the numbers of the message within it. The message is looked up in the schema of
    that id, and has to be `message`; it is read by the descriptor set all the same.

    | Protobuf | Spark |
    |---|---|
    | int32, sint32, sfixed32 | INT |
    | int64, sint64, sfixed64, uint32, fixed32 | BIGINT |
    | uint64, fixed64 | DECIMAL(20, 0) |
    | float, double, bool, string, bytes | FLOAT, DOUBLE, BOOLEAN, STRING, BINARY |
    | enum | STRING, the symbol's name |
    | google.protobuf.Timestamp | TIMESTAMP, to the microsecond |
    | message, repeated, map | STRUCT, ARRAY, MAP |

    A field that is not there is its default: 0, "", the first symbol, an empty array. It is null
    where Protobuf tells the two apart: `optional`, a member of a oneof, a message, proto2. Of a
    oneof, and of a field that comes twice, the last one counts; a message that comes twice is put
    together. Other well-known types are read as the messages that they are.

    Refused at the call: a message inside of itself, groups, editions.

    | value | reason |
    |---|---|
    | no value (a tombstone) | "null value"; with tombstones="row" a good row of nulls |
    | no bytes, without a registry | a good row: nothing of the message is set |
    | no header of five bytes; a first byte that is not 0 | "no schema header"; "wrong magic byte" |
    | an id that the registry does not have | "unknown schema id: <id>" |
    | another message, or a schema of another kind | "schema <id> has ..., not <message>" |
    | cut off | "truncated record" |
    | a number of too many bytes, a field 0, a group | "malformed record" |
    | text that is no UTF-8 | "invalid UTF-8: <field>" |
    | a symbol's number without a name, a time outside the years 1 to 9999 | "wrong type: <field>" |
    | no value where proto2, or NOT NULL, asks for one | "missing field: <field>" |

    Values are read in batches by array operations, the first field of all rows, then the second. A
    single value with 100,000 unpacked elements takes seconds.

    Args:
        descriptor_set: its bytes, or the file that protoc wrote.
        message: the message's full name, such as "shop.Click".
        columns: the fields that are read, as DDL text or StructType, with the types of the table
            above; all of them unless given.
        registry: a `Registry`, or texts of .proto files by their ids, where values have a header.
        tombstones: whether a null value is a dead letter or a row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Protocol Buffers, "Encoding"; Confluent, "Wire format".
    """
    require_tombstones(tombstones)
    content = _content(descriptor_set)
    try:
        found = declared(content, message)
        shape = spark_struct(found.message)
    except DescriptorError as fault:
        raise ArgumentError(
            f"descriptor_set cannot be read as {message!r}: {fault}.",
            "messages that protobuf_format's table names.",
        ) from None
    require_names(shape, "message")
    chosen = shape if columns is None else _chosen(schema_of(columns, "columns"), shape)
    return ProtobufFormat(chosen, found, _of_protobuf(schemas(registry)), tombstones)


@dataclass(frozen=True)
class ProtobufFormat:
    """Messages of Protocol Buffers; made by `protobuf_format`, where its rules stand."""

    schema: StructType
    declared: Declared
    registry: Schemas | None
    tombstones: Tombstones = "dead"
    needs: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        return decoded(raw, self._values(), self.schema, self.tombstones)

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        return diagnosed(dead, self._values())

    def _values(self) -> ProtoReader:
        names = tuple(self.schema.names)
        required = tuple(each.name for each in self.schema if not each.nullable)
        shape = arrow_of(self.schema)
        return ProtoReader(self.declared, names, required, shape, self.registry)


def _content(given: bytes | Path) -> bytes:
    if isinstance(given, bytes):
        return given
    if not isinstance(given, Path):
        raise ColumnTypeError(
            f"descriptor_set is {given!r}, a {type(given).__name__}.",
            "the bytes of a descriptor set, or a Path to its file.",
            'Path("clicks.desc")',
        )
    try:
        return given.read_bytes()
    except OSError as fault:
        raise ArgumentError(
            f"descriptor_set is the file {given}, which cannot be read: {type(fault).__name__}."
        ) from None


def _chosen(columns: StructType, shape: StructType) -> StructType:
    """Return the columns, which have to be fields of the message."""
    for column in columns:
        if column.name not in shape.names:
            raise ArgumentError(
                f"columns has {column.name!r}.", f"the message has {', '.join(shape.names)}."
            )
        kind = shape[column.name].dataType
        if nullable(column.dataType) != nullable(kind):
            raise ColumnTypeError(
                f"columns has {column.name} {column.dataType.simpleString()}.",
                f"{kind.simpleString()}, which the message has.",
            )
    return StructType(
        [StructField(each.name, shape[each.name].dataType, each.nullable) for each in columns]
    )


def _of_protobuf(found: Schemas | None) -> Schemas | None:
    """Return where schemas are found; texts that were listed are of Protobuf."""
    if not isinstance(found, Listed):
        return found
    return Listed({at: Written(each.text, "PROTOBUF") for at, each in found.schemas.items()})
