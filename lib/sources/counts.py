"""What is counted of the rows that a range of offsets has."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import quoted
from .aside import BAD
from .before import AGAIN, FILTERED
from .by_log import LATE
from .event_time import CLAMPED, EVENT_TIME


def counts(marks: Collection[str]) -> list[Column]:
    """Return the aggregates, by the names that `Reading` tells.

    marks: the names of the marks that the rows bear, BAD among them.

    Rows that a stream reads again are not counted; they move its watermark like any others.
    """
    bad = quoted(BAD)
    own = ~quoted(AGAIN) if AGAIN in marks else F.lit(True)
    time = F.unix_micros(EVENT_TIME)
    found = [
        F.count_if(own).alias("rows"),
        F.count_if(own & bad).alias("dead"),
        F.min(F.when(own & ~bad, time)).alias("earliest"),
        F.max(F.when(~bad, time)).alias("latest"),
    ]
    if CLAMPED in marks:
        found.append(F.count_if(own & ~bad & quoted(CLAMPED)).alias("clamped"))
    if FILTERED in marks:
        found.append(F.count_if(own & quoted(FILTERED)).alias("filtered"))
    if LATE in marks:
        good = ~bad & ~quoted(FILTERED) if FILTERED in marks else ~bad
        found.append(F.count_if(own & good & quoted(LATE)).alias("late"))
    return found
