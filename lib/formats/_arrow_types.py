"""The types of Arrow in which Spark takes the columns of a batch."""

from __future__ import annotations

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

_SIMPLE: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    BooleanType(): pa.bool_(),
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
