"""What is another in each batch, as a column for which Spark makes the same code."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..durations import since_1970

_WHOLE = "decimal(19,0)"


def changing(instant: datetime, beside: Column) -> Column:
    """Return an instant as a timestamp, to be compared with another; null where that is null.

    A literal timestamp is a part of the code that Spark generates: with another in each batch, each
    batch would have its classes compiled anew. A DECIMAL is handed to the code as an object; and
    what is computed with a column is no constant, which Spark would work out when it plans.
    """
    return F.timestamp_micros(changing_number(since_1970(instant), F.unix_micros(beside)))


def changing_number(number: int, beside: Column) -> Column:
    """Return a number as a BIGINT, as `changing` does an instant; null where `beside` is null."""
    other = beside.cast(_WHOLE)
    return (F.lit(Decimal(number)).cast(_WHOLE) - other + other).cast("bigint")
