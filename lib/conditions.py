"""Conditions that are given as text: which rows of a topic count at all."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from .columns import first_line, type_of
from .errors import ArgumentError, ColumnTypeError

_EXAMPLE = "where='ms > 100'"


def require_text(where: object) -> None:
    """Refuse a condition that is neither text nor None.

    Raises ArgumentError.
    """
    if where is not None and (not isinstance(where, str) or not where.strip()):
        raise ArgumentError(f"where is {where!r}.", "a condition as text, or None.", _EXAMPLE)


def condition(rows: DataFrame, where: str) -> Column:
    """Return the condition that a text says of each row by itself, in Spark's SQL.

    Raises ArgumentError, ColumnError and ColumnTypeError for one that the rows cannot answer.
    """
    said = F.expr(where)
    found = type_of(rows, said, f"where={where!r}")
    if not isinstance(found, BooleanType):
        raise ColumnTypeError(
            f"where={where!r} is of type {found.simpleString()}.",
            "a condition, which is true or false.",
            _EXAMPLE,
        )
    try:
        _ = rows.where(said).schema
    except AnalysisException as fault:
        raise ArgumentError(
            f"where={where!r} asks for more than one row: {first_line(fault)}",
            "a condition on a row's own columns, without aggregates.",
            _EXAMPLE,
        ) from fault
    return said
