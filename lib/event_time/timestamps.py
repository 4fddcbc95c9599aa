"""Conversion of epoch numbers to timestamps, and detection of event times in the future."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import require_choice, require_instance
from ..durations import microseconds

TimeUnit: TypeAlias = Literal["seconds", "milliseconds", "microseconds"]
_FIRST = -62_135_596_800_000_000
_LAST = 253_402_300_800_000_000
"""The first microsecond of the year 1, and the first after the year 9999."""

_EARLIEST_RECORD_MILLIS = 315_532_800_000
"""1980-01-01, before which no record of Kafka was written."""

_MICROSECONDS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}


def exceeds_future_tolerance(time: Column, received: Column, tolerance: str | timedelta) -> Column:
    """Return whether an event time is more than `tolerance` after the timestamp of its record.

    False, not null, without an event time or without a usable record timestamp. A timestamp before
    1980 is not usable: -1 is Kafka's for a record without one, and a producer that counts seconds
    instead of milliseconds sends times of January 1970. The result does not depend on the driver's
    clock, so a replay returns the same result.

    Raises ArgumentError.

    >>> received = F.lit(datetime(2026, 1, 1, 9, tzinfo=UTC))
    >>> clicks.where(exceeds_future_tolerance(F.col("event_time"), received, "1 hour")).count()
    9
    """
    tolerated = timedelta(microseconds=microseconds(tolerance, "tolerance", min_value=0))
    limit = F.try_add(received, F.lit(tolerated))
    is_usable = F.unix_millis(received) >= _EARLIEST_RECORD_MILLIS
    return F.coalesce((time > limit) & is_usable, F.lit(False))


def epoch_to_timestamp(epoch: Column, unit: TimeUnit = "milliseconds") -> Column:
    """Return the timestamp of an epoch number, or null outside the years 1 to 9999.

    `unit` is "seconds", "milliseconds" or "microseconds". Spark's `timestamp_millis` fails for a
    number out of range, so that one such record would stop a job; here the record becomes a dead
    letter without an event time.

    Raises ArgumentError.

    >>> clicks.select(F.year(epoch_to_timestamp(F.lit(1_767_261_780), "seconds"))).first()[0]
    2026
    """
    require_choice(unit, "unit", TimeUnit)
    require_instance(epoch, "epoch", Column, 'F.col("at")')
    scale = _MICROSECONDS[unit]
    number = epoch.cast("bigint")
    in_range = number.between(_FIRST // scale + 1, _LAST // scale - 1)
    return F.when(in_range, F.timestamp_micros(number * F.lit(scale)))
