"""The three timestamps of an event: when it would have occurred by the server's clock."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import column
from ..durations import microseconds
from .guard import instant


def server_time(
    occurred: str | Column,
    sent: str | Column,
    received: str | Column,
    *,
    longest: str | timedelta | None = None,
) -> Column:
    """Return the time of an event by the server's clock: occurred + (received - sent).

    It is exact to the microsecond. `occurred` and `sent` are times by the device's clock,
    `received` is by the server's. What the device's clock is off by cancels out. What remains is
    the time that the message was on its way, by which the answer is late, and any change of the
    device's clock between the event and its sending. An answer after `received` tells of such a
    change: `ahead_of(answer, received, ...)` finds it.

    Null where one of the three is null, where the answer is outside the years 1 to 9999, and, with
    `longest`, where the device held the event for longer than that before it sent it.
    `F.coalesce(server_time(...), occurred)` keeps the device's word instead.

    Source: three timestamps as in Kleppmann, Designing Data-Intensive Applications, chapter 11.

    >>> ago = lambda seconds: F.timestamp_seconds(F.lit(1_000_000 - seconds))
    >>> an_hour_slow = server_time(occurred=ago(3_700), sent=ago(3_601), received=ago(0))
    >>> clicks.select(F.unix_seconds(an_hour_slow).alias("at")).first()
    Row(at=999901)
    """
    # Spark's try_ functions give null where a difference is beyond a bigint, and raise nothing.
    held = F.try_subtract(F.unix_micros(column(sent)), F.unix_micros(column(occurred)))
    found = instant(F.try_subtract(F.unix_micros(column(received)), held), "microseconds")
    if longest is None:
        return found
    return F.when(held <= F.lit(microseconds(longest, "longest", least=0)), found)


def shifted(occurred: str | Column, offset: str | Column) -> Column:
    """Return a time moved on by an offset in microseconds, such as `clock_offsets` gives.

    Null outside the years 1 to 9999.

    >>> earlier = shifted("event_time", F.lit(-1_000_000))
    >>> clicks.where(earlier < F.col("event_time")).count()
    9
    """
    return instant(F.try_add(F.unix_micros(column(occurred)), column(offset)), "microseconds")
