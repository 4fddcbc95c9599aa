"""Clocks of devices, which are off, drift and jump: what a server's clock would have shown when an
event occurred."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from ..columns import (
    column,
    interval,
    microseconds,
    quoted,
    require,
    require_event_time,
    require_free,
)
from ..errors import ArgumentError, ColumnTypeError
from .guard import instant

RESULT = ("valid_from", "valid_to", "offset", "messages")
_FARTHEST = 10_000 * 366 * 86_400_000_000
AROUND, PAIRS, OFFSETS = "tidegate:around", "tidegate:pairs", "tidegate:offsets"
CUTS, LEVEL = "tidegate:cuts", "tidegate:level"


def corrected(
    occurred: str | Column,
    sent: str | Column,
    received: str | Column,
    *,
    longest: str | timedelta | None = None,
) -> Column:
    """Return the time of an event by the server's clock: occurred + (received - sent), to the microsecond.

    `occurred` and `sent` are times by the device's clock, `received` is by the server's. What the
    device's clock is off by cancels out; what remains is the time that the message was on its way,
    by which the answer is late, and any change of the device's clock between the event and its
    sending. An answer after `received` tells of such a change: `ahead_of(answer, received, ...)`
    finds it.

    Null where one of the three is null, where the answer is outside the years 1 to 9999, and, with
    `longest`, where the device held the event for longer than that before it sent it.
    `F.coalesce(corrected(...), occurred)` keeps the device's word instead.

    Source: three timestamps as in Kleppmann, Designing Data-Intensive Applications, chapter 11.

    >>> ago = lambda seconds: F.timestamp_seconds(F.lit(1_000_000 - seconds))
    >>> found = corrected(occurred=ago(3_700), sent=ago(3_601), received=ago(0))  # an hour and a second slow
    >>> clicks.select(F.unix_seconds(found).alias("at")).first()
    Row(at=999901)
    """
    held = F.try_subtract(F.unix_micros(column(sent)), F.unix_micros(column(occurred)))
    found = instant(F.try_subtract(F.unix_micros(column(received)), held), "microseconds")
    return (
        found
        if longest is None
        else F.when(held <= F.lit(microseconds(longest, "longest", least=0)), found)
    )


def shifted(occurred: str | Column, offset: str | Column) -> Column:
    """Return a time moved on by an offset in microseconds, such as `clock_offsets` gives; null outside years 1 to 9999.

    >>> clicks.select((shifted("event_time", F.lit(-1_000_000)) < F.col("event_time")).alias("earlier")).first()
    Row(earlier=True)
    """
    return instant(F.try_add(F.unix_micros(column(occurred)), column(offset)), "microseconds")


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
    """Estimate by how much to move each device's times: the median of many messages, anew for each `every`.

    A message tells received - sent: the offset of the clock, plus the time on its way, which is
    never negative but may be long. The median stands firm when fewer than half of the messages were
    slow, or bear a wrong `sent`; the least would be nearer to the truth while all stamps are right,
    but one wrong stamp spoils it, and so it is not taken. (Of an even number of messages it is the
    lower of the two in the middle.) Messages with the same pair of times count once, so that
    neither redelivery nor a batch of events sent together weighs more.

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

    >>> sent = clicks.withColumn("sent", F.expr("event_time - interval 1 hour"))  # a clock an hour slow
    >>> offsets = clock_offsets(sent, device="user", sent="sent", received="event_time")
    >>> offsets.orderBy("user").select("user", "offset", "messages").first()
    Row(user='u0', offset=3600000000, messages=5)
    """
    length = _checked(events, device, sent, received, every, messages)
    start, end = quoted(AROUND)["start"], quoted(AROUND)["end"]
    lead, trail = length // 2, length - length // 2
    off = F.try_subtract(F.unix_micros(quoted(received)), F.unix_micros(quoted(sent)))
    pair = F.struct(quoted(received).alias("received"), off.alias("offset"))
    around = F.window(quoted(received), interval(2 * length), interval(length), interval(trail))
    # Naming the time keeps the filter above the watermark, which a row without a device moves on as
    # any other.
    told = quoted(device).isNotNull() & off.between(-_FARTHEST, _FARTHEST)
    heard = events.where(told | quoted(received).isNull())
    pairs = heard.groupBy(around.alias(AROUND), quoted(device)).agg(
        F.sort_array(F.collect_set(pair)).alias(PAIRS)
    )
    # An array of its own: taking the field inside the search for steps would copy it for each
    # message.
    away = pairs.withColumn(OFFSETS, F.transform(quoted(PAIRS), lambda pair: pair["offset"]))
    cut = away.withColumn(CUTS, _cuts(quoted(OFFSETS), microseconds(step, "step"), messages))
    levels = cut.withColumn(LEVEL, F.explode(_levels(quoted(PAIRS), quoted(CUTS))))
    begin, until = _moved(start, lead), _moved(end, -trail)
    return (
        levels.where(
            F.exists(quoted(LEVEL)["pairs"]["received"], lambda at: (at >= begin) & (at < until))
        )
        .select(
            quoted(device),
            F.greatest(begin, quoted(LEVEL)["from"]).alias("valid_from"),
            F.least(until, quoted(LEVEL)["to"]).alias("valid_to"),
            _median(quoted(LEVEL)["pairs"]["offset"]).alias("offset"),
            F.size(quoted(LEVEL)["pairs"]).alias("messages"),
        )
        .where(F.col("valid_from") < F.col("valid_to"))
    )


def _cuts(offset: Column, step: int, messages: int) -> Column:
    """The indices at which a level begins, the first of them 0."""
    size = F.size(offset)

    def sides(at: Column) -> Column:
        before = F.slice(offset, at - F.lit(messages - 1), F.lit(messages))
        after = F.slice(offset, at + F.lit(1), F.lit(messages))
        return F.struct(at.alias("at"), before.alias("before"), after.alias("after"))

    def middles(side: Column) -> Column:
        old, new = _median(side["before"]), _median(side["after"])
        return side.withField("old", old).withField("new", new)

    def stepped(side: Column) -> Column:
        old, new = side["old"], side["new"]
        last, own = F.get(offset, side["at"] - F.lit(1)), F.get(offset, side["at"])
        agree = F.greatest(_spread(side["before"], old), _spread(side["after"], new)) * F.lit(
            2
        ) <= F.lit(step)
        turned = (F.abs(last - old) < F.abs(last - new)) & (F.abs(own - new) < F.abs(own - old))
        return (F.abs(new - old) > F.lit(step)) & agree & turned

    within = F.sequence(F.lit(messages), F.greatest(size - F.lit(messages), F.lit(messages)))
    found = F.filter(F.transform(F.transform(within, sides), middles), stepped)["at"]
    return F.concat(
        F.array(F.lit(0)),
        F.when(size >= F.lit(2 * messages), found).otherwise(F.array().cast("array<int>")),
    )


def _levels(pairs: Column, cuts: Column) -> Column:
    """The levels between the cuts: their pairs, and the time at which each begins and ends, null at
    the outer ends."""

    def level(cut: Column, index: Column) -> Column:
        following = F.get(cuts, index + F.lit(1))
        stop = F.coalesce(following, F.size(pairs))
        return F.struct(
            F.slice(pairs, cut + F.lit(1), stop - cut).alias("pairs"),
            F.when(cut > F.lit(0), F.get(pairs, cut)["received"]).alias("from"),
            F.get(pairs, following)["received"].alias("to"),
        )

    return F.transform(cuts, level)


def _median(values: Column) -> Column:
    return F.get(F.sort_array(values), F.shiftright(F.size(values) - F.lit(1), 1))


def _spread(values: Column, middle: Column) -> Column:
    return _median(F.transform(values, lambda value: F.abs(value - middle)))


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
