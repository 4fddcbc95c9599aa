"""The schema of a change: the same for every changelog format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from ..columns import as_schema, require_column_names, require_columns
from ..errors import ArgumentError, ColumnError, ColumnTypeError

CREATE = "create"
UPDATE = "update"
DELETE = "delete"
SNAPSHOT = "snapshot"
TRUNCATE = "truncate"
TOMBSTONE = "tombstone"
ROW_OPS = (CREATE, UPDATE, SNAPSHOT)
"""Operations after which the row exists."""

REMOVAL_OPS = (DELETE, TRUNCATE, TOMBSTONE)
"""Operations after which the row does not exist."""

CHANGE_COLUMNS = ("op", "key", "before", "after", "unavailable", "position", "event_time")
POSITION_TYPE = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("written_at", "timestamp")
    .add("server", "string")
    .add("source", ArrayType(LongType()))
    .add("committed_at", "timestamp")
)
"""Where a change is in its topic, when its record was written, and where it is in the log of the
database: the identity of that log, the position, and the time of the change by the clock of the
database. The last three are null for a change without a position in that log."""
NO_PREVIOUS_VALUE = "unavailable value, and no row before it"
RESERVED_COLUMNS = (
    "op",
    "position",
    "changed_at",
    "deleted",
    "valid_from",
    "valid_to",
    "is_current",
)
"""Columns that current and history tables add to the columns of the row."""


def row_type(
    columns: str | StructType, key: str | Sequence[str], rename: Mapping[str, str] | None = None
) -> tuple[StructType, list[str]]:
    """Validate the columns and the key of a source table; return the schema and the key names.

    rename: the names of columns in the tables that are written, by their names in the source; None
        if the caller cannot rename.
    """
    schema = as_schema(columns, "columns")
    keys = require_column_names(key, "key")
    missing = [name for name in keys if name not in schema.names]
    if missing or not keys:
        raise ColumnError(
            f"invalid key: {key!r}",
            f"at least one of the columns {', '.join(schema.names)}",
            f"key={schema.names[0]!r}" if schema.names else "",
        )
    for field in schema:
        _require_comparable(field.name, field.dataType)
    if rename:
        _require_renames(schema, rename)
    written = renamed_columns(schema, rename or {}).names
    reserved = [name for name in written if name.lower() in RESERVED_COLUMNS]
    if reserved:
        new_names = {name: f"source_{name}" for name in reserved}
        raise ColumnError(
            f"invalid columns: {', '.join(reserved)}",
            f"names other than the reserved ones: {', '.join(RESERVED_COLUMNS)}",
            f"rename={new_names}" if rename is not None else f"withColumnsRenamed({new_names})",
        )
    return schema, keys


def renamed_columns(columns: StructType, rename: Mapping[str, str]) -> StructType:
    """Return columns with the names that they have in the tables that are written."""
    return StructType(
        [
            StructField(rename.get(field.name, field.name), field.dataType, field.nullable)
            for field in columns
        ]
    )


def _require_renames(columns: StructType, rename: Mapping[str, str]) -> None:
    if not isinstance(rename, Mapping) or not all(
        isinstance(name, str) and name for pair in rename.items() for name in pair
    ):
        raise ArgumentError(
            f"invalid rename: {rename!r}",
            "names in the tables that are written, by names in the source",
            "rename={'op': 'source_op'}",
        )
    unknown = [name for name in rename if name not in columns.names]
    if unknown:
        raise ColumnError(
            f"invalid rename: {', '.join(unknown)}",
            f"some of the columns {', '.join(columns.names)}",
        )
    lowered = [name.lower() for name in renamed_columns(columns, rename).names]
    duplicates = sorted({name for name in lowered if lowered.count(name) > 1})
    if duplicates:
        raise ColumnError(
            f"duplicate columns after rename: {', '.join(duplicates)}",
            "names that no other column has",
        )


def change_type(columns: StructType, keys: Sequence[str]) -> StructType:
    """Return the schema of a change of a table with these columns and this key."""
    nullable_columns = StructType([StructField(field.name, field.dataType) for field in columns])
    return (
        StructType()
        .add("op", "string", nullable=False)
        .add("key", StructType([nullable_columns[name] for name in keys]))
        .add("before", nullable_columns)
        .add("after", nullable_columns)
        .add("unavailable", ArrayType(StringType()))
        .add("position", POSITION_TYPE, nullable=False)
        .add("event_time", "timestamp")
    )


def removes_row(op: Column) -> Column:
    """Return whether the row does not exist after a change with this operation."""
    return op.isin(*REMOVAL_OPS)


def is_unavailable(name: str, unavailable: str | Column = "unavailable") -> Column:
    """Return whether the value of a column was not sent, by the names of those that were not."""
    return F.coalesce(F.array_contains(unavailable, name), F.lit(False))


def has_unavailable(unavailable: str | Column = "unavailable") -> Column:
    """Return whether some value was not sent, by the names of the columns."""
    return F.coalesce(F.size(unavailable) > 0, F.lit(False))


def _require_comparable(name: str, data_type: DataType) -> None:
    if isinstance(data_type, MapType | VariantType):
        raise ColumnTypeError(
            f"invalid type of column {name!r}: {data_type.simpleString()}",
            "a comparable type: any type except map and variant, also inside arrays and structs",
            f"'{name} STRING', which reads an object as JSON text",
        )
    if isinstance(data_type, ArrayType):
        _require_comparable(name, data_type.elementType)
    for field in data_type if isinstance(data_type, StructType) else ():
        _require_comparable(name, field.dataType)


def with_deletes_of_old_keys(changes: DataFrame) -> DataFrame:
    """Add a delete of the old key for each update that changes the key of its row.

    Maxwell writes such a change as one update; Debezium writes a delete and a create.
    """
    old_values = [F.col("before").getField(name).alias(name) for name in key_names(changes)]
    old_key = F.struct(*old_values)
    is_key_change = (F.col("op") == F.lit(UPDATE)) & ~old_key.eqNullSafe(F.col("key"))
    has_old_key = reduce(and_, [value.isNotNull() for value in old_values])
    null_row = F.lit(None).cast(changes.schema["after"].dataType)
    delete = {"op": F.lit(DELETE), "key": old_key, "after": null_row}
    return changes.unionByName(changes.where(is_key_change & has_old_key).withColumns(delete))


def key_names(changes: DataFrame) -> list[str]:
    """Return the names of the key columns; raise if the frame does not have the change schema."""
    require_columns(changes, CHANGE_COLUMNS, "changes")
    key_type, row_struct = changes.schema["key"].dataType, changes.schema["after"].dataType
    if not isinstance(key_type, StructType) or not isinstance(row_struct, StructType):
        types = f"{key_type.simpleString()}, {row_struct.simpleString()}"
        raise ColumnTypeError(
            f"invalid types of key and after: {types}",
            "structs, as debezium_format and maxwell_format return them",
            'debezium_format("id INT, name STRING", key="id")',
        )
    return list(key_type.names)


def row_names(changes: DataFrame) -> list[str]:
    """Return the names of the columns of the row."""
    row_struct = changes.schema["after"].dataType
    return list(row_struct.names) if isinstance(row_struct, StructType) else []


def has_key(changes: DataFrame) -> Column:
    """Return whether no column of the key is null."""
    return reduce(and_, [F.col("key").getField(name).isNotNull() for name in key_names(changes)])


def current_row(changes: DataFrame) -> list[Column]:
    """Return the columns of the row after each change; null except for the key after a delete."""
    keys = key_names(changes)
    parts = {name: F.col("key") if name in keys else F.col("after") for name in row_names(changes)}
    return [part.getField(name).alias(name) for name, part in parts.items()]


def is_before(
    end_offsets: Mapping[str, Mapping[int, int]], topic: Column, partition: Column, offset: Column
) -> Column:
    """Return whether a log position is before the end offset of its partition."""
    parts = [
        (topic == F.lit(name)) & (partition == F.lit(number)) & (offset < F.lit(end))
        for name, numbers in end_offsets.items()
        for number, end in numbers.items()
    ]
    return reduce(or_, parts, F.lit(False))
