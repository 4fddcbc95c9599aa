"""What is within a value that becomes JSON, and that JSON would change without a word."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
)

Judge = Callable[[Column], Column]


def has_odd_number(value: Column, kind: DataType) -> Column | None:
    """Return whether NaN or an infinite number is within a value; None where none can be."""
    return _any(value, kind, (FloatType, DoubleType), _is_odd)


def has_odd_text(value: Column, kind: DataType) -> Column | None:
    """Return whether text that is no UTF-8 is within a value; None where there is no text."""
    return _any(value, kind, (StringType,), lambda each: ~F.is_valid_utf8(each))


def _is_odd(number: Column) -> Column:
    return F.isnan(number) | (F.abs(number) == F.lit(float("inf")))


def _any(
    value: Column, kind: DataType, leaves: tuple[type[DataType], ...], judge: Judge
) -> Column | None:
    """Return whether any value within is judged so, null for none that is known."""
    if isinstance(kind, leaves):
        return F.coalesce(judge(value), F.lit(False))
    if isinstance(kind, StructType):
        return _either(
            [_any(value.getField(each.name), each.dataType, leaves, judge) for each in kind]
        )
    if isinstance(kind, ArrayType):
        return _each(value, kind.elementType, leaves, judge)
    if isinstance(kind, MapType):
        return _either([
            _each(F.map_keys(value), kind.keyType, leaves, judge),
            _each(F.map_values(value), kind.valueType, leaves, judge),
        ])  # fmt: skip
    return None


def _each(
    values: Column, kind: DataType, leaves: tuple[type[DataType], ...], judge: Judge
) -> Column | None:
    # Spark wants a condition of its own for each element, so that it is asked twice.
    if _any(F.lit(None), kind, leaves, lambda _: F.lit(True)) is None:
        return None
    found = F.exists(values, lambda each: _certain(_any(each, kind, leaves, judge)))
    return F.coalesce(found, F.lit(False))


def _certain(judged: Column | None) -> Column:
    return F.lit(False) if judged is None else judged


def _either(parts: list[Column | None]) -> Column | None:
    found = [each for each in parts if each is not None]
    return reduce(lambda one, other: one | other, found) if found else None
