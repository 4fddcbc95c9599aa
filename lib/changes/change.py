"""What a change is: one shape for the rows of every changelog, whatever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ..columns import names, require, schema_of
from ..errors import ColumnError, ColumnTypeError

CREATE = "create"
UPDATE = "update"
DELETE = "delete"
SNAPSHOT = "snapshot"
TRUNCATE = "truncate"
TOMBSTONE = "tombstone"
ROWS = (CREATE, UPDATE, SNAPSHOT)
"""The kinds of change after which there is a row."""

ENDS = (DELETE, TRUNCATE, TOMBSTONE)
"""The kinds of change after which there is none."""

CHANGE = ("op", "key", "before", "after", "position", "event_time", "place")
PLACE = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
ADDED = ("op", "position", "changed_at", "deleted", "valid_from", "valid_to", "is_current")
"""What the tables made of changes have beside the row's own columns."""


def row_type(columns: str | StructType, key: str | Sequence[str]) -> tuple[StructType, list[str]]:
    """Return the columns of the table that changes, and the names of its key, both checked."""
    given = schema_of(columns, "columns")
    keys = names(key, "key")
    missing = [name for name in keys if name not in given.names]
    if missing or not keys:
        raise ColumnError(
            f"key names {', '.join(missing) or 'no column'}.",
            f"of the columns {', '.join(given.names)}, at least one.",
        )
    for field in given:
        _require_comparable(field.name, field.dataType)
    taken = [name for name in given.names if name.lower() in ADDED]
    if taken:
        raise ColumnError(
            f"columns has {', '.join(taken)}, which the tables made of changes have of their own.",
            f"names other than {', '.join(ADDED)}.",
            "rename the column where it is captured (Debezium: the transform ReplaceField).",
        )
    return given, keys


def change_type(columns: StructType, keys: Sequence[str]) -> StructType:
    """Return the shape of a change of a table with these columns and this key."""
    free = StructType([StructField(field.name, field.dataType) for field in columns])
    return StructType(
        [
            StructField("op", StringType(), nullable=False),
            StructField("key", StructType([free[name] for name in keys])),
            StructField("before", free),
            StructField("after", free),
            StructField("position", ArrayType(LongType())),
            StructField("event_time", TimestampType()),
            StructField("place", PLACE, nullable=False),
        ]
    )


def no_row(op: Column) -> Column:
    """Return whether there is no row after a change of this kind."""
    return op.isin(*ENDS)


def _require_comparable(name: str, kind: DataType) -> None:
    inner = [field.dataType for field in kind] if isinstance(kind, StructType) else []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    if isinstance(kind, MapType | VariantType):
        raise ColumnTypeError(
            f"the column {name!r} is or holds a {kind.simpleString()}, whose values cannot be "
            "compared.",
            "all types but maps and variants.",
            f"'{name} STRING', which takes an object as its text.",
        )
    for each in inner:
        _require_comparable(name, each)


def moved(changes: DataFrame) -> DataFrame:
    """Add a delete of the old key for each update that gave its row another key.

    Maxwell writes one update; Debezium writes the delete by itself.
    """
    keys = key_names(changes)
    old_key = F.struct(*[F.col("before").getField(name).alias(name) for name in keys])
    is_moved = (F.col("op") == F.lit(UPDATE)) & ~old_key.eqNullSafe(F.col("key"))
    is_known = reduce(and_, [F.col("before").getField(name).isNotNull() for name in keys])
    no_row_after = F.lit(None).cast(changes.schema["after"].dataType)
    deletes = changes.where(is_moved & is_known).withColumns(
        {"op": F.lit(DELETE), "key": old_key, "after": no_row_after}
    )
    return changes.unionByName(deletes)


def key_names(changes: DataFrame) -> list[str]:
    """Return the names of the key's columns; refuse a frame that holds no changes."""
    require(changes, CHANGE, "changes")
    kind = changes.schema["key"].dataType
    row = changes.schema["after"].dataType
    if not isinstance(kind, StructType) or not isinstance(row, StructType):
        raise ColumnTypeError(
            f"key is of type {kind.simpleString()}.",
            "the structs that a format of changes gives.",
            "debezium(...)",
        )
    return list(kind.names)


def row_names(changes: DataFrame) -> list[str]:
    """Return the names of the row's columns."""
    kind = changes.schema["after"].dataType
    return list(kind.names) if isinstance(kind, StructType) else []


def has_key(changes: DataFrame) -> Column:
    """Return whether a change has a whole key."""
    return reduce(and_, [F.col("key").getField(name).isNotNull() for name in key_names(changes)])
