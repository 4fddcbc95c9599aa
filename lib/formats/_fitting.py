"""Whether a parsed value is one of its type: what Spark's parser lets pass and should not."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_MOST_DIGITS = 38
"""The digits of the widest decimal."""

_YEARS: dict[DataType, tuple[str, str]] = {
    DateType(): ("0001-01-01", "9999-12-31"),
    TimestampType(): ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    TimestampNTZType(): ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
}
"""The first and the last value that every reader of a Delta table can take."""


def widened(kind: DataType) -> DataType:
    """Return a type whose decimals keep as many digits after the point as there can be.

    The parser rounds a number to the scale of its field. In a wider one its digits can be seen.
    """
    if isinstance(kind, DecimalType):
        return DecimalType(_MOST_DIGITS, _MOST_DIGITS - kind.precision + kind.scale)
    if isinstance(kind, ArrayType):
        return ArrayType(widened(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, widened(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, widened(each.dataType)) for each in kind])
    return kind


def narrowed(value: Column, kind: DataType) -> Column:
    """Return a value of the widened type as one of the type itself."""
    wide = widened(kind)
    return value if wide == nullable(kind) else value.try_cast(nullable(kind))


def unfit(value: Column, kind: DataType) -> Column:
    """Return whether a value of the widened type is none of the type itself; false for a null.

    So are digits beyond the scale of a DECIMAL, numbers that became infinite, dates outside the
    years 1 to 9999, and maps with a key that is there twice.
    """
    return reduce(or_, _faults(value, kind), F.lit(False))


def _faults(value: Column, kind: DataType) -> list[Column]:
    """Return the conditions of which each says that a value does not fit its type."""
    return [F.coalesce(fault, F.lit(False)) for fault in _may_be_faults(value, kind)]


def _may_be_faults(value: Column, kind: DataType) -> list[Column]:
    """Return the same conditions, of which some are null where the value is."""
    if isinstance(kind, DecimalType):
        return [~value.try_cast(kind).eqNullSafe(value)]
    if isinstance(kind, FloatType | DoubleType):
        return [F.abs(value) == F.lit(float("inf"))]
    if kind in _YEARS:
        first, last = _YEARS[kind]
        return [~value.between(F.lit(first).cast(kind), F.lit(last).cast(kind))]
    if isinstance(kind, StructType):
        inner = [_faults(value.getField(field.name), field.dataType) for field in kind]
        return [fault for faults in inner for fault in faults]
    if isinstance(kind, ArrayType):
        return _faults_within(value, kind.elementType)
    if isinstance(kind, MapType):
        keys = F.map_keys(value)
        twice = F.size(F.array_distinct(keys)) < F.size(keys)
        return [twice, *_faults_within(F.map_values(value), kind.valueType)]
    return []


def _faults_within(values: Column, kind: DataType) -> list[Column]:
    """Return the check of an array's values; none, and no cost, where all that is parsed fits."""
    if not _can_be_unfit(kind):
        return []
    return [F.exists(values, lambda value: unfit(value, kind))]


def _can_be_unfit(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_can_be_unfit(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _can_be_unfit(kind.elementType)
    return kind in _YEARS or isinstance(kind, DecimalType | FloatType | DoubleType | MapType)


def nullable(kind: DataType) -> DataType:
    """Return a type without NOT NULL, as the parser returns its fields."""
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, nullable(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, nullable(each.dataType)) for each in kind])
    return kind
