"""Correction of event times by device clocks: three timestamps of an event, or clock offsets."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import (
    add_micros,
    as_column,
    quoted_column,
    require_columns,
    require_event_time,
    require_no_name_clash,
    require_timestamp,
)
from ..durations import interval_text, microseconds
from ..errors import ArgumentError
from .timestamps import epoch_to_timestamp

RESULT = ("valid_from", "valid_to", "offset", "messages")
SPAN = "tidegate:around"
PAIRS = "tidegate:pairs"
OFFSETS = "tidegate:offsets"
CUTS = "tidegate:cuts"
LEVEL = "tidegate:level"

_MAX_OFFSET = 10_000 * 366 * 86_400_000_000


def correct_event_time(
    occurred: str | Column,
    sent: str | Column,
    received: str | Column,
    *,
    max_delay: str | timedelta | None = None,
) -> Column:
    """Return the time of an event by the server's clock: occurred + (received - sent).

    `occurred` and `sent` are times of the device's clock, `received` is a time of the server's
    clock. The offset of the device's clock cancels out, exact to the microsecond. The result is
    late by the network delay, and wrong if the device's clock changed between `occurred` and
    `sent`; `exceeds_future_tolerance(result, received, ...)` detects a result after `received`.

    Null if one of the timestamps is null, if the result is outside the years 1 to 9999, or if
    `sent` is more than `max_delay` after `occurred`. To use the device's time in these cases, write
    `F.coalesce(correct_event_time(...), occurred)`.

    Raises ArgumentError.

    Source: three timestamps as in Kleppmann, Designing Data-Intensive Applications, chapter 11.

    >>> ago = lambda seconds: F.timestamp_seconds(F.lit(1_000_000 - seconds))
    >>> corrected = correct_event_time(occurred=ago(3_700), sent=ago(3_601), received=ago(0))
    >>> clicks.select(F.unix_seconds(corrected).alias("seconds")).first()
    Row(seconds=999901)
    """
    # The try_ functions return null instead of an overflow error.
    delay = F.try_subtract(F.unix_micros(as_column(sent)), F.unix_micros(as_column(occurred)))
    corrected_micros = F.try_subtract(F.unix_micros(as_column(received)), delay)
    corrected = epoch_to_timestamp(corrected_micros, "microseconds")
    if max_delay is None:
        return corrected
    return F.when(delay <= F.lit(microseconds(max_delay, "max_delay", min_value=0)), corrected)


def apply_clock_offset(occurred: str | Column, offset: str | Column) -> Column:
    """Add a clock offset in microseconds, such as an offset of `clock_offsets`, to a time.

    Null outside the years 1 to 9999.

    >>> earlier = apply_clock_offset("event_time", F.lit(-1_000_000))
    >>> clicks.where(earlier < F.col("event_time")).count()
    9
    """
    corrected = F.try_add(F.unix_micros(as_column(occurred)), as_column(offset))
    return epoch_to_timestamp(corrected, "microseconds")


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
    """Estimate the clock offset of each device as the median over its messages per interval.

    The difference received - sent of a message is the offset of the clock plus the network delay,
    which is positive and can be long. The median is robust if fewer than half of the messages are
    slow or have a wrong `sent`; the minimum would be closer to the offset, but one wrong timestamp
    invalidates it. (Of an even number of messages, the lower median.) Messages with equal
    timestamps count once, so that redelivered messages and events sent together have no extra
    weight.

    A step of the clock, such as a correction or a restart, ends one offset and starts another at
    the first message after the step. A step is detected if the medians of the `messages` before and
    after it differ by more than `step`, while on both sides at least half of the messages are
    within half a `step` of their median. It thus requires `messages` messages on both sides, and is
    missed if half of them are slow. Choose a `step` larger than the usual variation of messages and
    than the drift of the clock in `every`: 50 parts per million are 0.18 s per hour.

    Messages are collected over two lengths of `every`, and the offsets of the middle length are
    emitted, so that steps near its ends are detected. State on a stream: each pair of timestamps of
    the last two to three lengths of `every`, twice. In append mode an offset is emitted once, when
    the watermark is half a length beyond its end; a message is late by `received`. To correct
    events, store the result in a table and join it by device and valid_from <= received < valid_to,
    or the latest offset before. Changing every, device, sent or received requires a new checkpoint.

    Args:
        events: a batch, or a stream with a watermark on `received`. Rows with a null in one of the
            three columns, or with an offset of more than 10,000 years, are dropped.
        device: the column that identifies devices.
        sent: when a message was sent, by the device's clock; a timestamp.
        received: when it was received, by the server's clock; a timestamp.
        every: the length of the interval of an offset, at least 2 microseconds.
        step: the minimum difference that counts as a step of the clock.
        messages: the number of messages on each side that confirm a step.

    Returns:
        The device column, `valid_from` (inclusive) and `valid_to` (exclusive) by the server's
        clock, `offset` (bigint, microseconds to add with `apply_clock_offset`), and `messages` (the
        number of distinct pairs of timestamps).

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    >>> an_hour_slow = F.expr("event_time - interval 1 hour")
    >>> sent = clicks.withColumn("sent", an_hour_slow)
    >>> offsets = clock_offsets(sent, device="user", sent="sent", received="event_time")
    >>> offsets.orderBy("user").select("user", "offset", "messages").first()
    Row(user='u0', offset=3600000000, messages=5)
    """
    require_columns(events, [device], "device")
    require_event_time(events, received)
    require_no_name_clash(RESULT, [device], "device")
    require_timestamp(events, sent, "sent")
    if not isinstance(messages, int) or messages < 1:
        raise ArgumentError(
            f"invalid messages: {messages!r}", "an integer of at least 1", "messages=5"
        )
    length = microseconds(every, "every", min_value=2)
    with_pairs = _with_offset_pairs(events, device, sent, received)
    pairs_by_span = _collect_pairs(with_pairs, device, received, length)
    device_levels = _explode_levels(pairs_by_span, microseconds(step, "step"), messages)
    return _level_medians(device_levels, device, length)


def _with_offset_pairs(events: DataFrame, device: str, sent: str, received: str) -> DataFrame:
    times = F.unix_micros(quoted_column(received)), F.unix_micros(quoted_column(sent))
    clock_offset = F.try_subtract(*times)
    pair = F.struct(quoted_column(received).alias("received"), clock_offset.alias("offset"))
    is_usable = quoted_column(device).isNotNull() & clock_offset.between(-_MAX_OFFSET, _MAX_OFFSET)
    # Spark does not push a filter that references the time below the watermark, which rows without
    # a device advance too.
    return events.where(is_usable | quoted_column(received).isNull()).withColumn(PAIRS, pair)


def _collect_pairs(with_pairs: DataFrame, device: str, received: str, length: int) -> DataFrame:
    """Collect the pairs of each device over two lengths, once for each length."""
    span_lengths = map(interval_text, (2 * length, length, length - length // 2))
    span = F.window(quoted_column(received), *span_lengths).alias(SPAN)
    pairs = F.sort_array(F.collect_set(quoted_column(PAIRS))).alias(PAIRS)
    return with_pairs.groupBy(span, quoted_column(device)).agg(pairs)


def _explode_levels(pairs_by_span: DataFrame, step: int, messages: int) -> DataFrame:
    """Return a row for each level of a clock, from one step to the next."""
    # A separate array of offsets avoids a copy of the pairs for each message.
    offsets = F.transform(quoted_column(PAIRS), lambda pair: pair["offset"])
    with_offsets = pairs_by_span.withColumn(OFFSETS, offsets)
    with_cuts = with_offsets.withColumn(CUTS, detect_steps(quoted_column(OFFSETS), step, messages))
    levels = step_levels(quoted_column(PAIRS), quoted_column(CUTS))
    return with_cuts.withColumn(LEVEL, F.explode(levels))


def _level_medians(device_levels: DataFrame, device: str, length: int) -> DataFrame:
    """Return the median of each level that overlaps the middle length."""
    lead = length // 2
    trail = length - lead
    start = add_micros(quoted_column(SPAN)["start"], lead)
    end = add_micros(quoted_column(SPAN)["end"], -trail)
    level = quoted_column(LEVEL)
    in_middle = F.exists(level["pairs"]["received"], lambda time: (time >= start) & (time < end))
    rows = device_levels.where(in_middle).select(
        quoted_column(device),
        F.greatest(start, level["from"]).alias("valid_from"),
        F.least(end, level["to"]).alias("valid_to"),
        median(level["pairs"]["offset"]).alias("offset"),
        F.size(level["pairs"]).alias("messages"),
    )
    return rows.where(F.col("valid_from") < F.col("valid_to"))


def detect_steps(offsets: Column, step: int, messages: int) -> Column:
    """Return the indices at which levels start, beginning with 0.

    A level starts where the medians of the `messages` before and after an index differ by more than
    `step`, while on both sides half of the numbers are within half a `step` of their median.
    """
    size = F.size(offsets)
    first_index = F.lit(messages)
    last_index = F.greatest(size - F.lit(messages), first_index)
    indices = F.sequence(first_index, last_index)
    # Separate transforms compute the medians once for each index.
    sides = F.transform(indices, lambda index: _split_at(offsets, index, messages))
    with_medians = F.transform(sides, _with_medians)
    step_indices = F.filter(with_medians, lambda side: _is_step(offsets, side, step))["at"]
    no_steps = F.array().cast("array<int>")
    is_long_enough = size >= F.lit(2 * messages)
    return F.concat(F.array(F.lit(0)), F.when(is_long_enough, step_indices).otherwise(no_steps))


def _split_at(offsets: Column, index: Column, messages: int) -> Column:
    """Return an index with the numbers before and after it."""
    before = F.slice(offsets, index - F.lit(messages - 1), F.lit(messages))
    after = F.slice(offsets, index + F.lit(1), F.lit(messages))
    return F.struct(index.alias("at"), before.alias("before"), after.alias("after"))


def _with_medians(side: Column) -> Column:
    return side.withField("old", median(side["before"])).withField("new", median(side["after"]))


def _is_step(offsets: Column, side: Column, step: int) -> Column:
    old = side["old"]
    new = side["new"]
    max_deviation = F.greatest(_mad(side["before"], old), _mad(side["after"], new))
    is_steady = max_deviation * F.lit(2) <= F.lit(step)
    # Indices near a step also see it: only at the step itself is the previous number closer to the
    # old level and the current number closer to the new level.
    previous = F.get(offsets, side["at"] - F.lit(1))
    current = F.get(offsets, side["at"])
    was_old = F.abs(previous - old) < F.abs(previous - new)
    is_new = F.abs(current - new) < F.abs(current - old)
    return (F.abs(new - old) > F.lit(step)) & is_steady & was_old & is_new


def step_levels(pairs: Column, cuts: Column) -> Column:
    """Return the pairs of each level with its start and end times, which are null at the ends."""

    def level(cut: Column, index: Column) -> Column:
        next_cut = F.get(cuts, index + F.lit(1))
        end_index = F.coalesce(next_cut, F.size(pairs))
        return F.struct(
            F.slice(pairs, cut + F.lit(1), end_index - cut).alias("pairs"),
            F.when(cut > F.lit(0), F.get(pairs, cut)["received"]).alias("from"),
            F.get(pairs, next_cut)["received"].alias("to"),
        )

    return F.transform(cuts, level)


def median(values: Column) -> Column:
    """Return the median of an array, the lower one of an even number of values."""
    middle = F.shiftright(F.size(values) - F.lit(1), 1)
    return F.get(F.sort_array(values), middle)


def _mad(values: Column, middle: Column) -> Column:
    return median(F.transform(values, lambda value: F.abs(value - middle)))
