"""Literals that differ in each batch without new generated code."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..durations import epoch_micros

_INTEGER = "decimal(19,0)"


def batch_literal(timestamp: datetime, compared_to: Column) -> Column:
    """Return a timestamp literal to compare with a column; null where the column is null.

    Spark embeds a literal timestamp in its generated code, so a new literal in each batch would
    compile new classes. A DECIMAL literal is passed as an object, and an expression that depends on
    a column is not folded to a constant.
    """
    number = batch_number_literal(epoch_micros(timestamp), F.unix_micros(compared_to))
    return F.timestamp_micros(number)


def batch_number_literal(number: int, compared_to: Column) -> Column:
    """Return a BIGINT literal like `batch_literal`; null where `compared_to` is null."""
    other = compared_to.cast(_INTEGER)
    return (F.lit(Decimal(number)).cast(_INTEGER) - other + other).cast("bigint")
