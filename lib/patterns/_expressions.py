"""What callers give as columns and expressions, and the types that are compared."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    FractionalType,
)

from ..columns import is_plain, quoted, type_of
from ..errors import ColumnTypeError
from .measures import Comparison


def common(events: DataFrame, each: Comparison) -> DataType:
    """Return the type in which two values are compared."""
    what = f"compare({shown(each.value)}, {each.comparator!r}, {shown(each.earlier.value)})"
    both = F.array(value(events, each.value), value(events, each.earlier.value))
    found = type_of(events, both, what).elementType  # type: ignore[attr-defined]
    require_plain(found, f"{what} compares what", floats=True)
    return found  # type: ignore[no-any-return]


def require_plain(found: DataType, what: str, *, floats: bool = False) -> None:
    """Refuse a type whose values Arrow does not order as Spark does."""
    if not is_plain(found) and not (floats and isinstance(found, FractionalType)):
        raise ColumnTypeError(
            f"{what} is of type {found.simpleString()}.",
            "whole numbers, decimals, text, times, booleans, bytes"
            + (", doubles." if floats else "."),
            "cast it with withColumn before the transform.",
        )


def expression(given: str | Column) -> Column:
    """Return a condition as a Column."""
    return F.expr(given) if isinstance(given, str) else given


def value(events: DataFrame, given: str | Column | None) -> Column:
    """Return a column's value, taken by its whole name, or an expression's."""
    if isinstance(given, str):
        return quoted(given) if given in events.columns else F.expr(given)
    return F.lit(None) if given is None else given


def shown(given: str | Column | None) -> str:
    """Return an expression as an error tells it."""
    return repr(given) if isinstance(given, str) else f"{given}"
