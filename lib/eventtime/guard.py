"""Guards for the watermark: what a clock far ahead may not do to it."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..durations import microseconds
from ..errors import ArgumentError

_FIRST = -62_135_596_800_000_000
_LAST = 253_402_300_800_000_000
"""The first microsecond of the year 1, and the one after the year 9999's last."""

_MICROSECONDS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}


def ahead_of(time: Column, received: Column, tolerance: str | timedelta) -> Column:
    """Return whether an event time is further ahead of the record's timestamp than tolerated.

    Exactly `tolerance` ahead is not yet too far. Never null: without an event time, or without a
    timestamp of the record's own (Kafka gives those as 1 millisecond before 1970), there is nothing
    to compare and the answer is false. The driver's clock plays no part, so a replay decides as the
    first run did.

    >>> ahead = ahead_of(F.col("event_time"), F.col("timestamp"), "1 hour")  # doctest: +SKIP
    """
    allowed = timedelta(microseconds=microseconds(tolerance, "tolerance", least=0))
    limit = F.try_add(received, F.lit(allowed))
    return F.coalesce((time > limit) & (F.unix_millis(received) != -1), F.lit(False))


def instant(epoch: Column, unit: str = "milliseconds") -> Column:
    """Return the timestamp of an epoch number; null, never an error, outside the years 1 to 9999.

    `unit` is "seconds", "milliseconds" or "microseconds". Spark's own `timestamp_millis` raises for
    a number that is too large, and one such record would stop a job for good. Here it becomes a
    null event time, a dead letter.

    Raises ArgumentError.
    """
    if unit not in _MICROSECONDS:
        raise ArgumentError(f"unit is {unit!r}.", f"{', '.join(_MICROSECONDS)}.")
    scale = _MICROSECONDS[unit]
    whole = epoch.cast("bigint")
    within = whole.between(_FIRST // scale + 1, _LAST // scale - 1)
    return F.when(within, F.timestamp_micros(whole * F.lit(scale)))
