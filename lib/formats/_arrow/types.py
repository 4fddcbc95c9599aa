"""The types of Arrow in which Spark takes the columns of a batch."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import ColumnError

_SIMPLE: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    BooleanType(): pa.bool_(),
    ByteType(): pa.int8(),
    ShortType(): pa.int16(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us", "UTC"),
    TimestampNTZType(): pa.timestamp("us"),
}


def arrow_of(kind: DataType) -> pa.DataType:
    """Return the type of Arrow for a type of Spark, whose values may all be null."""
    if isinstance(kind, StructType):
        return pa.struct([(field.name, arrow_of(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_of(kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(arrow_of(kind.keyType), arrow_of(kind.valueType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _SIMPLE[kind]


def require_names(kind: DataType, what: str) -> None:
    """Refuse a struct that has no fields, or two that Spark takes for one."""
    if isinstance(kind, ArrayType):
        require_names(kind.elementType, what)
    elif isinstance(kind, MapType):
        require_names(kind.valueType, what)
    elif isinstance(kind, StructType):
        lowered = [name.lower() for name in kind.fieldNames()]
        twice = sorted({name for name in lowered if lowered.count(name) > 1})
        if twice or not lowered:
            raise ColumnError(
                f"{what} has {', '.join(twice) + ' more than once' if twice else 'no fields'}.",
                "fields, with names that differ by more than capitals.",
            )
        for field in kind.fields:
            require_names(field.dataType, what)
