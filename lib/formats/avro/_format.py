"""Avro values, with the schema of those who wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...columns import schema_of
from ...errors import ArgumentError, ColumnTypeError
from .._arrow.batches import Tombstones, decoded, diagnosed, require_tombstones, text_of
from .._arrow.types import require_names
from .._schema_ids import Schemas, schemas
from ._reader import AvroReader, fitted
from ._schema import Avro, SchemaError, parsed
from ._types import spark_type, wanted, without_null

AvroSchema: TypeAlias = str | Path
"""A schema of Avro: its JSON, or the file in which it stands."""


def avro_format(
    schema: AvroSchema | StructType,
    *,
    writer: AvroSchema | None = None,
    registry: Schemas | Mapping[int, AvroSchema] | None = None,
    tombstones: Tombstones = "dead",
) -> AvroFormat:
    """Read each value as one Avro record, in Avro's binary encoding.

    Without `registry` a value is a record and nothing else, written by `writer`, or by `schema`
    where no writer is given. With it a value begins with the header of a schema registry's clients:
    a byte 0 and the id of the writer's schema, four bytes, the highest first.

    A record is read as one of `schema`, by Avro's rules of schema resolution:

    | writer and reader | what becomes of it |
    |---|---|
    | a field that the reader has and the writer has not | its default; without one no record fits |
    | a field that the reader has not | passed over |
    | a field under an alias of the reader's | read |
    | int, long, float for a wider number; text for bytes, and bytes for text | read |
    | timestamps of milliseconds for microseconds, and the other way | read |
    | a decimal of fewer digits and the same scale | read |
    | a union of which the reader takes some types | read where a value is of these |
    | a symbol of an enum that the reader has not | its default, else "wrong type" |
    | records, enums and fixed of other names, any other type | no record fits |

    `schema` can also be DDL text or a StructType: fields are then taken by their names, whatever
    the writer's record is called. One that the writer does not have is null, unless it is NOT NULL.
    An enum is a STRING, a fixed BINARY; a TIMESTAMP is read of a logical type alone.

    | Avro | Spark |
    |---|---|
    | boolean, int, long, float, double | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE |
    | string, enum, uuid; bytes, fixed | STRING; BINARY |
    | record, array, map | STRUCT, ARRAY, MAP<STRING, ...> |
    | decimal, date | DECIMAL, DATE |
    | timestamp-millis, timestamp-micros | TIMESTAMP |
    | local-timestamp-millis, local-timestamp-micros | TIMESTAMP_NTZ |
    | null and one other type | that type; others are NOT NULL |
    | int and long, float and double | BIGINT, DOUBLE |

    Other logical types are read as what they are made of: a time of day is a number. Refused at the
    call: any other union, a record inside of itself, an array of what takes no bytes, names that
    differ by capitals alone.

    | value | reason |
    |---|---|
    | no value (a tombstone) | "null value"; with tombstones="row" a good row of nulls |
    | no bytes | "empty value" |
    | no header of five bytes; a first byte that is not 0 | "no schema header"; "wrong magic byte" |
    | an id that the registry does not have | "unknown schema id: <id>" |
    | a schema that is none of Avro, or that `schema` cannot read | "schema <id> ...: <why>" |
    | cut off | "truncated record" |
    | a number of too many bytes, a negative length, a branch that is none | "malformed record" |
    | bytes after the record | "bytes after the record" |
    | text that is no UTF-8 | "invalid UTF-8: <field>" |
    | a value out of its type; a key that is twice in a map | "wrong type: <field>" |
    | null where the reader has none | "missing field: <field>" |

    A date or a time is of the years 1 to 9999. NaN and the infinite are numbers of Avro, and are
    read.

    Values are read in batches by array operations, a field of all rows at a time, and the elements
    of arrays one after the other, of all rows at a time.

    Args:
        schema: what a row holds; the fields of a record.
        writer: the schema by which values without a header were written.
        registry: a `Registry`, or schemas by their ids, where values have a header.
        tombstones: whether a null value is a dead letter or a row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Apache Avro 1.12, "Specification"; Confluent, "Wire format".

    >>> form = avro_format('''{"type": "record", "name": "Click", "fields": [
    ...     {"name": "page", "type": "string"},
    ...     {"name": "ms", "type": ["null", "long"], "default": null}]}''')
    >>> form.schema.simpleString()
    'struct<page:string,ms:bigint>'
    """
    require_tombstones(tombstones)
    if writer is not None and registry is not None:
        raise ArgumentError(
            "writer and registry are both given.",
            "a writer for values without a header, a registry for values with one.",
        )
    reader, shape = _reader(schema)
    found = schemas(registry)
    if found is not None:
        return AvroFormat(shape, reader, None, found, tombstones)
    if writer is None and reader.loose:
        raise ArgumentError(
            "schema has the columns, and nothing says by which schema the values were written.",
            "an Avro schema, a writer, or a registry.",
            'writer=Path("click.avsc")',
        )
    written = reader if writer is None else _parsed(writer, "writer")
    try:
        fitted(written, reader)
    except SchemaError as fault:
        raise ColumnTypeError(
            f"records of writer cannot be read as schema: {fault}.",
            "fields of the same types, and a default for each that the writer does not have.",
        ) from None
    return AvroFormat(shape, reader, written, None, tombstones)


@dataclass(frozen=True)
class AvroFormat:
    """Avro records; made by `avro_format`, where its rules stand."""

    schema: StructType
    reader: Avro
    writer: Avro | None
    registry: Schemas | None
    tombstones: Tombstones = "dead"
    needs: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        return decoded(raw, self._values(), self.schema, self.tombstones)

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        return diagnosed(dead, self._values())

    def _values(self) -> AvroReader:
        return AvroReader(self.reader, self.writer, self.registry)


def _reader(schema: AvroSchema | StructType) -> tuple[Avro, StructType]:
    """Return what is wanted of a record, and the fields that it becomes."""
    if isinstance(schema, Path) or (isinstance(schema, str) and schema.lstrip()[:1] in '{["'):
        reader = _parsed(schema, "schema")
        if reader.kind != "record":
            raise ArgumentError(f"schema is {reader}.", "a record.")
        try:
            shape = spark_type(reader)
        except SchemaError as fault:
            raise ColumnTypeError(
                f"schema has {fault}.", "the types that avro_format names."
            ) from None
        assert isinstance(shape, StructType)
        require_names(shape, "schema")
        return reader, shape
    columns = schema_of(schema)
    require_names(columns, "schema")
    try:
        return without_null(wanted(columns)), columns
    except SchemaError as fault:
        raise ColumnTypeError(f"schema has {fault}.", "the types that avro_format names.") from None


def _parsed(given: AvroSchema, what: str) -> Avro:
    text = text_of(given, what)
    if not isinstance(text, str):
        raise ColumnTypeError(
            f"{what} is {given!r}, a {type(given).__name__}.", "a schema's JSON, or a Path to it."
        )
    try:
        return parsed(text)
    except SchemaError as fault:
        raise ArgumentError(f"{what} cannot be read: {fault}.", "a schema of Avro.") from None
