"""The offset of each device's clock by the median of many messages, its steps noticed."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from ..columns import quoted, require, require_event_time, require_free
from ..durations import interval, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._steps import levels, median, steps

RESULT = ("valid_from", "valid_to", "offset", "messages")
AROUND = "tidegate:around"
PAIRS = "tidegate:pairs"
OFFSETS = "tidegate:offsets"
CUTS = "tidegate:cuts"
LEVEL = "tidegate:level"

_FARTHEST = 10_000 * 366 * 86_400_000_000


def clock_offsets(
    events: DataFrame,
    *,
    device: str,
    sent: str,
    received: str,
    every: str | timedelta = "1 hour",
    step: str | timedelta = "10 seconds",
    messages: int = 5,
) -> DataFrame:
    """Estimate by how much to move each device's times, by the median of many messages.

    There is an offset for each `every`. A message tells received - sent: the offset of the clock,
    plus the time on its way, which is never negative but may be long. The median stands firm when
    fewer than half of the messages were slow, or bear a wrong `sent`; the least would be nearer to
    the truth while all stamps are right, but one wrong stamp spoils it, and so it is not taken. (Of
    an even number of messages it is the lower of the two in the middle.) Messages with the same
    pair of times count once, so that neither redelivery nor a batch of events sent together weighs
    more.

    A step of the clock (set right, or a restart) ends one offset and begins another, from the first
    message sent after it. It is noticed where the median of the `messages` before and that of the
    `messages` from there on differ by more than `step`, while on both sides at least half of them
    lie within half a `step` of their median: slow messages are slow by different times. So a step
    needs that many messages on either side, and is missed where half of those were slow. `step`
    should be more than messages usually differ by, and more than the clock drifts in `every`: 50
    parts per million are 0.18 s an hour.

    Messages are collected over two lengths of `every`, and the offsets of the middle one come out,
    so that steps near its ends are seen as well. State on a stream: each pair of times of the last
    two to three lengths of `every`, twice. In append mode offsets come out once, when the watermark
    has passed half a length beyond their end; a message is late by `received`. Until then a
    device's last offset is the best there is: keep the result in a table, and join events to it by
    device, and by valid_from <= received < valid_to or the latest before. A checkpoint is bound to
    every, device, sent and received.

    Args:
        events: a batch, or a stream with a watermark on `received`. Rows with a null among the
            three, or a clock that is off by more than 10,000 years, are left out.
        device: the column that tells the devices apart.
        sent: when a message was sent, by the device's clock; a timestamp.
        received: when it was received, by the server's; a timestamp.
        every: how long an offset counts, 2 microseconds or more.
        step: the least difference that is a step of the clock.
        messages: how many messages on each side confirm a step.

    Returns:
        The device column, `valid_from` inclusive and `valid_to` exclusive (by the server's clock),
        `offset` (bigint, microseconds to add to the device's times, see `shifted`), `messages` (how
        many pairs of times it rests on).

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    >>> an_hour_slow = F.expr("event_time - interval 1 hour")
    >>> sent = clicks.withColumn("sent", an_hour_slow)
    >>> offsets = clock_offsets(sent, device="user", sent="sent", received="event_time")
    >>> offsets.orderBy("user").select("user", "offset", "messages").first()
    Row(user='u0', offset=3600000000, messages=5)
    """
    length = _checked(events, device, sent, received, every, messages)
    heard = _messages(events, device, sent, received)
    collected = _collected(heard, device, received, length)
    found = _with_steps(collected, microseconds(step, "step"), messages)
    return _offsets(found, device, length)


def _messages(events: DataFrame, device: str, sent: str, received: str) -> DataFrame:
    """Add each message's pair of the time it was received and the clock's offset then."""
    off = F.try_subtract(F.unix_micros(quoted(received)), F.unix_micros(quoted(sent)))
    pair = F.struct(quoted(received).alias("received"), off.alias("offset"))
    told = quoted(device).isNotNull() & off.between(-_FARTHEST, _FARTHEST)
    # A filter that names the time stays above the watermark: a row without a device moves the
    # watermark on as any other row does.
    return events.where(told | quoted(received).isNull()).withColumn(PAIRS, pair)


def _collected(heard: DataFrame, device: str, received: str, length: int) -> DataFrame:
    """Collect each device's pairs over two lengths of time, once for each length."""
    trail = length - length // 2
    around = F.window(quoted(received), interval(2 * length), interval(length), interval(trail))
    return heard.groupBy(around.alias(AROUND), quoted(device)).agg(
        F.sort_array(F.collect_set(quoted(PAIRS))).alias(PAIRS)
    )


def _with_steps(collected: DataFrame, step: int, messages: int) -> DataFrame:
    """Give each level of a clock, from one step to the next, a row of its own."""
    # The offsets are an array of their own: taking the field inside the search for steps would
    # copy the pairs for each message.
    off = collected.withColumn(OFFSETS, F.transform(quoted(PAIRS), lambda pair: pair["offset"]))
    cut = off.withColumn(CUTS, steps(quoted(OFFSETS), step, messages))
    return cut.withColumn(LEVEL, F.explode(levels(quoted(PAIRS), quoted(CUTS))))


def _offsets(found: DataFrame, device: str, length: int) -> DataFrame:
    """Return the levels' medians, for the part of a level that lies in the middle length."""
    lead = length // 2
    trail = length - lead
    begin = _moved(quoted(AROUND)["start"], lead)
    until = _moved(quoted(AROUND)["end"], -trail)
    level = quoted(LEVEL)
    heard_within = F.exists(level["pairs"]["received"], lambda at: (at >= begin) & (at < until))
    rows = found.where(heard_within).select(
        quoted(device),
        F.greatest(begin, level["from"]).alias("valid_from"),
        F.least(until, level["to"]).alias("valid_to"),
        median(level["pairs"]["offset"]).alias("offset"),
        F.size(level["pairs"]).alias("messages"),
    )
    return rows.where(F.col("valid_from") < F.col("valid_to"))


def _moved(time: Column, micros: int) -> Column:
    return F.timestamp_micros(F.unix_micros(time) + F.lit(micros))


def _checked(
    events: DataFrame, device: str, sent: str, received: str, every: str | timedelta, messages: int
) -> int:
    require(events, [device], "device")
    require(events, [sent], "sent")
    require_event_time(events, received)
    require_free([device], RESULT, "clock_offsets")
    found = events.schema[sent].dataType
    if not isinstance(found, TimestampType):
        raise ColumnTypeError(
            f"sent={sent!r} is of type {found.simpleString()}.",
            "a timestamp: an instant as the device's clock had it.",
            f"withColumn({sent!r}, F.to_timestamp({sent!r})), or F.timestamp_millis for epoch "
            "milliseconds.",
        )
    if not isinstance(messages, int) or messages < 1:
        raise ArgumentError(
            f"messages is {messages!r}.", "a whole number, 1 or more.", "messages=5"
        )
    return microseconds(every, "every", least=2)
