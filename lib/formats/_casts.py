"""Checks that a value parsed by Spark fits its declared type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import Any

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

_MAX_DIGITS = 38
"""The precision of the widest DECIMAL."""

_TIME_BOUNDS: dict[DataType, tuple[str, str]] = {
    DateType(): ("0001-01-01", "9999-12-31"),
    TimestampType(): ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    TimestampNTZType(): ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
}
"""The first and the last value that every reader of a Delta table supports."""
_CHECKED_TYPES = (DecimalType, FloatType, DoubleType, MapType, *map(type, _TIME_BOUNDS))


def wider_type(data_type: DataType) -> Any:
    """Return a type whose decimals have the largest possible scale.

    The parser rounds a number to the scale of its field; the wider type preserves excess digits.
    """
    if isinstance(data_type, DecimalType):
        return DecimalType(_MAX_DIGITS, _MAX_DIGITS - data_type.precision + data_type.scale)
    return map_inner_types(data_type, wider_type)


def narrow_value(value: Column, data_type: DataType) -> Column:
    """Return a value of the widened type in the declared type."""
    narrow_type = nullable_type(data_type)
    return value if wider_type(data_type) == narrow_type else value.try_cast(narrow_type)


def does_not_fit(value: Column, data_type: DataType) -> Column:
    """Return whether a value of the widened type does not fit the declared type.

    True for digits beyond the scale of a DECIMAL, infinite numbers, dates outside the years 1 to
    9999, and maps with duplicate keys. False for nulls.
    """
    faults = [F.coalesce(fault, F.lit(False)) for fault in _range_errors(value, data_type)]
    return reduce(or_, faults, F.lit(False))


def _range_errors(value: Column, data_type: DataType) -> list[Column]:
    """Return the conditions under which a value does not fit; some are null for a null."""
    if isinstance(data_type, DecimalType):
        return [~value.try_cast(data_type).eqNullSafe(value)]
    if isinstance(data_type, FloatType | DoubleType):
        return [F.abs(value) == F.lit(float("inf"))]
    if data_type in _TIME_BOUNDS:
        first, last = _TIME_BOUNDS[data_type]
        return [~value.between(F.lit(first).cast(data_type), F.lit(last).cast(data_type))]
    if isinstance(data_type, StructType):
        inner = [_range_errors(value.getField(field.name), field.dataType) for field in data_type]
        return [fault for faults in inner for fault in faults]
    if isinstance(data_type, ArrayType):
        return _element_errors(value, data_type.elementType)
    if isinstance(data_type, MapType):
        keys = F.map_keys(value)
        has_duplicate_keys = F.size(F.array_distinct(keys)) < F.size(keys)
        return [has_duplicate_keys, *_element_errors(F.map_values(value), data_type.valueType)]
    return []


def _element_errors(values: Column, data_type: DataType) -> list[Column]:
    """Return the check of the elements; an empty list if every parsed element fits."""
    if not any(isinstance(inner, _CHECKED_TYPES) for inner in nested_types(data_type)):
        return []
    return [F.exists(values, lambda value: does_not_fit(value, data_type))]


def nested_types(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and the types inside it, except those of map keys."""
    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type:
            yield from nested_types(field.dataType)
    elif isinstance(data_type, ArrayType):
        yield from nested_types(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from nested_types(data_type.valueType)


def nullable_type(data_type: DataType) -> DataType:
    """Return a type whose fields are all nullable, as the parser returns them."""
    return map_inner_types(data_type, nullable_type)


def map_inner_types(data_type: DataType, convert: Callable[[DataType], DataType]) -> DataType:
    """Return a type with converted element, value and field types, all nullable."""
    if isinstance(data_type, ArrayType):
        return ArrayType(convert(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(data_type.keyType, convert(data_type.valueType))
    if isinstance(data_type, StructType):
        return StructType([StructField(field.name, convert(field.dataType)) for field in data_type])
    return data_type
