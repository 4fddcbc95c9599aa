"""Correction of device clocks: three timestamps, and offsets with step detection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from statistics import median_low
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few, varied
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    TidegateError,
    WatermarkError,
)
from tidegate.event_time import apply_clock_offset, clock_offsets, correct_event_time
from tidegate.testing import StreamDriver

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
BASE = 1_760_000_400 * SECOND // HOUR * HOUR
SCHEMA = "device string, sent timestamp, received timestamp"


class Message(NamedTuple):
    """A message: device, and microseconds since 1970 by its clock and by the server's clock."""

    device: str | None
    sent: int | None
    received: int


class Offset(NamedTuple):
    """A row of clock_offsets, with times in microseconds since 1970."""

    device: str | None
    begin: int
    end: int
    offset: int
    messages: int


def instant(micros: int | None) -> datetime | None:
    return None if micros is None else UNIX_EPOCH + timedelta(microseconds=micros)


def frame(spark: SparkSession, messages: Iterable[Message]) -> DataFrame:
    return spark.createDataFrame(
        [(m.device, instant(m.sent), instant(m.received)) for m in messages], SCHEMA
    )


def offset_rows(frame: DataFrame) -> list[Offset]:
    micros = [F.unix_micros(bound) for bound in ("valid_from", "valid_to")]
    return sorted(
        Offset(*row) for row in frame.select("device", *micros, "offset", "messages").collect()
    )


def estimate_offsets(events: DataFrame, **options: Any) -> DataFrame:
    return clock_offsets(events, device="device", sent="sent", received="received", **options)


def expected_offsets(
    messages: Iterable[Message], every: int, step: int, confirm: int
) -> list[Offset]:
    """Return the offsets by definition: collect, split at steps, take medians."""
    pairs_by_device: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for message in messages:
        if message.device is not None and message.sent is not None:
            pairs_by_device[message.device].add((message.received, message.received - message.sent))
    rows = []
    for device, pairs in pairs_by_device.items():
        for begin in sorted({received // every * every for received, _ in pairs}):
            low, high = begin - every // 2, begin - every // 2 + 2 * every
            nearby = sorted(pair for pair in pairs if low <= pair[0] < high)
            edges = [0, *steps([offset for _, offset in nearby], step, confirm), len(nearby)]
            for first, stop in pairwise(edges):
                start = max(begin, nearby[first][0]) if first else begin
                end = min(begin + every, nearby[stop][0]) if stop < len(nearby) else begin + every
                level = nearby[first:stop]
                if start < end and any(begin <= received < begin + every for received, _ in level):
                    rows.append(
                        Offset(
                            device,
                            start,
                            end,
                            median_low(offset for _, offset in level),
                            len(level),
                        )
                    )
    return sorted(rows)


def steps(offsets: list[int], step: int, confirm: int) -> list[int]:
    """Return the indices of steps: the first message that is closer to the following ones."""
    indices = []
    for index in range(confirm, len(offsets) - confirm + 1):
        left, right = offsets[index - confirm : index], offsets[index : index + confirm]
        before, after = median_low(left), median_low(right)
        spread = max(
            median_low(abs(x - before) for x in left), median_low(abs(x - after) for x in right)
        )
        previous, current = offsets[index - 1], offsets[index]
        is_boundary = abs(previous - before) < abs(previous - after) and abs(current - after) < abs(
            current - before
        )
        if abs(after - before) > step and 2 * spread <= step and is_boundary:
            indices.append(index)
    return indices


def messages_of(
    clock: Callable[[int], int], *, device: str, hours: float, slow: float = 0.0, seed: int = 1
) -> list[Message]:
    """Return a message of a device every 20 seconds.

    `clock` returns the offset of the device in microseconds. The network delay is up to 300 ms, and
    5 seconds to 2 minutes for the fraction `slow` of messages.
    """
    rng = Random(seed)
    drawn = []
    for sent in range(BASE, BASE + int(hours * HOUR), 20 * SECOND):
        network_delay = (
            rng.randrange(5 * SECOND, 120 * SECOND)
            if rng.random() < slow
            else rng.randrange(300_000)
        )
        drawn.append(Message(device, sent - clock(sent), sent + network_delay))
    return drawn


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> tuple[list[Message], list[Offset]]:
    """The messages and offsets of six devices with different clock errors, from one query."""
    jump = BASE + 95 * MINUTE
    messages = [
        *messages_of(lambda _: HOUR, device="an hour slow", hours=3),
        *messages_of(lambda _: -3 * 24 * HOUR, device="three days fast", hours=3),
        *messages_of(lambda at: (at - BASE) * 50 // 10**6, device="drifting by 50 ppm", hours=6),
        *messages_of(lambda at: -HOUR if at < jump else 0, device="corrected", hours=3),
        *messages_of(
            lambda at: 0 if at < jump else 60 * SECOND,
            device="step in a slow network",
            hours=3,
            slow=0.1,
        ),
        *messages_of(lambda _: HOUR, device="slow network", hours=3, slow=0.2),
    ]
    Random(7).shuffle(messages)
    return messages, offset_rows(estimate_offsets(frame(spark, messages), messages=9))


def device_offsets(fleet: tuple[list[Message], list[Offset]], device: str) -> list[Offset]:
    return [row for row in fleet[1] if row.device == device]


@pytest.mark.parametrize(
    ("device", "off"), [("an hour slow", HOUR), ("three days fast", -3 * 24 * HOUR)]
)
def test_the_offset_is_the_median_of_the_messages(
    fleet: tuple[list[Message], list[Offset]], device: str, off: int
) -> None:
    rows = device_offsets(fleet, device)
    assert [(row.begin, row.end) for row in rows[:3]] == [
        (BASE + i * HOUR, BASE + (i + 1) * HOUR) for i in range(3)
    ]
    assert all(
        100_000 < row.offset - off < 200_000 for row in rows[:3]
    )  # half of the network delay of 300 ms


def test_hourly_offsets_follow_a_drifting_clock(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    rows = [
        row for row in device_offsets(fleet, "drifting by 50 ppm") if row.end <= BASE + 6 * HOUR
    ]
    assert len(rows) == 6
    for row in rows[1:-1]:
        middle = (row.begin + row.end) // 2
        assert abs(row.offset - 150_000 - (middle - BASE) * 50 // 10**6) < 50_000
    assert rows[-1].offset - rows[0].offset > 600_000  # 180 ms an hour


def test_a_step_starts_a_new_offset_at_the_first_message_after_it(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    messages = [m for m in fleet[0] if m.device == "corrected"]
    first = min(m.received for m in messages if m.received - (m.sent or 0) > -10 * SECOND)
    assert [
        (row.begin, row.end, row.offset // HOUR) for row in device_offsets(fleet, "corrected")[:4]
    ] == [
        (BASE, BASE + HOUR, -1),
        (BASE + HOUR, first, -1),
        (first, BASE + 2 * HOUR, 0),
        (BASE + 2 * HOUR, BASE + 3 * HOUR, 0),
    ]


def test_slow_messages_are_not_steps_and_do_not_change_offsets(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    slow = device_offsets(fleet, "slow network")
    assert len({row.begin for row in slow}) == len(slow)
    assert all(abs(row.offset - HOUR) < 300_000 for row in slow if row.end <= BASE + 3 * HOUR)


def test_a_step_is_detected_among_slow_messages(fleet: tuple[list[Message], list[Offset]]) -> None:
    rows = [
        row for row in device_offsets(fleet, "step in a slow network") if row.end <= BASE + 3 * HOUR
    ]
    after = [row.begin for row in rows if row.offset > 59 * SECOND]
    assert [round(row.offset / SECOND) for row in rows] == [0] * (len(rows) - len(after)) + [
        60
    ] * len(after)
    assert len(after) == 2
    assert abs(after[0] - (BASE + 95 * MINUTE)) < MINUTE


def test_all_offsets_equal_the_oracle(fleet: tuple[list[Message], list[Offset]]) -> None:
    assert fleet[1] == expected_offsets(fleet[0], HOUR, 10 * SECOND, 9)


def drawn() -> st.SearchStrategy[list[Message]]:
    """Draw messages around the ends of minutes, with few levels of offsets, and nulls."""
    received = st.one_of(
        st.integers(0, 5 * MINUTE), st.sampled_from([0, MINUTE - 1, MINUTE, 2 * MINUTE])
    )
    offset = st.one_of(
        st.sampled_from([0, 30 * SECOND, -30 * SECOND]), st.integers(-60 * SECOND, 60 * SECOND)
    )
    message = st.builds(
        lambda device, at, by, null: Message(device, None if null else BASE + at - by, BASE + at),
        st.sampled_from(["a", "a", "a", "b", None]),
        received,
        offset,
        st.sampled_from([False] * 9 + [True]),
    )
    return varied(st.lists(message, min_size=2, max_size=80))


@pytest.mark.draws
@few()
@given(drawn(), st.integers(0, 79), st.integers(0, 4))
@pytest.mark.slow
def test_stream_and_batch_equal_the_oracle(
    spark: SparkSession, messages: list[Message], cut: int, again: int
) -> None:
    options = {"every": "1 minute", "step": "10 seconds", "messages": 3}
    expected = expected_offsets(messages, MINUTE, 10 * SECOND, 3)
    assert offset_rows(estimate_offsets(frame(spark, messages), **options)) == expected
    parts = [part for part in (messages[:cut], messages[cut:] + messages[:again]) if part]
    transform = lambda events: estimate_offsets(events, **options)  # noqa: E731
    with StreamDriver(
        spark, SCHEMA, transform, watermark_delay="5 minutes", time="received"
    ) as stream:
        for part in parts:
            stream.feed(frame(spark, part))
            stream.restart()
        stream.advance_to(UNIX_EPOCH + timedelta(microseconds=BASE + 24 * HOUR))
        assert offset_rows(stream.results()) == expected


def test_correct_event_time_is_exact_and_does_not_fail(spark: SparkSession) -> None:
    hour, far = HOUR, 250_000_000_000 * SECOND
    rows = [
        # occurred, sent, received, the result, the result with max_delay="1 hour"
        (BASE + 7 - hour, BASE + 10 - hour, BASE + 20, BASE + 17, BASE + 17),
        (BASE + 7 + 72 * hour, BASE + 8 + 72 * hour, BASE + 9, BASE + 8, BASE + 8),
        (BASE, BASE + hour, BASE, BASE - hour, BASE - hour),
        (BASE, BASE + hour + 1, BASE, BASE - hour - 1, None),
        (BASE + 5, BASE, BASE, BASE + 5, BASE + 5),
        (-5, -3, -1, -3, -3),
        (None, BASE, BASE, None, None),
        (BASE, None, BASE, None, None),
        (BASE, BASE, None, None, None),
        (far, -far, far, None, None),
        (-(2**63), 2**63 - 1, BASE, None, None),
        (2**63 - 1, -(2**63), 2**63 - 1, None, None),
    ]
    timestamps = spark.createDataFrame(
        [(i, *row[:3]) for i, row in enumerate(rows)],
        "i int, occurred long, sent long, received long",
    ).select(
        "i", *[F.timestamp_micros(name).alias(name) for name in ("occurred", "sent", "received")]
    )
    result = timestamps.select(
        "i",
        F.unix_micros(correct_event_time("occurred", "sent", F.col("received"))).alias("all"),
        F.unix_micros(correct_event_time("occurred", "sent", "received", max_delay="1 hour")).alias(
            "max_delay"
        ),
        F.unix_micros(
            apply_clock_offset("occurred", F.unix_micros("received") - F.unix_micros("occurred"))
        ).alias("applied"),
    )
    rows_by_index = (
        result.where("i < 10").orderBy("i").collect()
        + result.where("i >= 10").drop("applied").orderBy("i").collect()
    )
    assert [(row["all"], row["max_delay"]) for row in rows_by_index] == [row[3:] for row in rows]
    assert [row["applied"] for row in rows_by_index[:6]] == [row[2] for row in rows[:6]]


def test_apply_clock_offset_adds_or_returns_null_out_of_range(spark: SparkSession) -> None:
    moved = spark.range(1).select(
        F.unix_micros(apply_clock_offset(F.timestamp_micros(F.lit(5)), F.lit(-7))).alias("back"),
        apply_clock_offset(F.timestamp_micros(F.lit(2**62)), F.lit(2**62)).alias("over"),
        apply_clock_offset(F.timestamp_micros(F.lit(0)), F.lit(None).cast("bigint")).alias("none"),
    )
    assert tuple(moved.collect()[0]) == (-2, None, None)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "nowhere"}, ColumnError, "invalid device: no column 'nowhere'"),
        ({"sent": "nowhere"}, ColumnError, "invalid sent: no column 'nowhere'"),
        ({"sent": "device"}, ColumnTypeError, "invalid sent: column 'device' has type string"),
        ({"received": "device"}, ColumnTypeError, "has type string"),
        ({"every": "1 month"}, ArgumentError, "invalid every: '1 month'"),
        ({"every": "1 microsecond"}, ArgumentError, "at least 2"),
        ({"step": "0 seconds"}, ArgumentError, "invalid step: '0 seconds'"),
        ({"messages": 0}, ArgumentError, "invalid messages: 0"),
        ({"device": "offset"}, ColumnError, "offset"),
    ],
)
def test_invalid_arguments_raise_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[TidegateError], message: str
) -> None:
    events = frame(spark, []).withColumn("offset", F.lit("a"))
    with pytest.raises(error, match=message):
        clock_offsets(
            events, **{"device": "device", "sent": "sent", "received": "received"} | options
        )


def test_a_stream_without_a_watermark_on_received_raises(spark: SparkSession) -> None:
    rate = (
        spark.readStream.format("rate")
        .load()
        .withColumnsRenamed({"value": "device", "timestamp": "received"})
    )
    events = rate.withColumn("sent", F.col("received"))
    with pytest.raises(WatermarkError, match="received"):
        estimate_offsets(events)


def test_times_out_of_range_are_ignored(spark: SparkSession) -> None:
    valid = messages_of(lambda _: HOUR, device="a", hours=0.2)
    out_of_range = spark.createDataFrame(
        [("a", 2**63 - 1), ("a", -(2**63))] * 9, "device string, sent long"
    ).select(
        "device",
        F.timestamp_micros("sent").alias("sent"),
        F.timestamp_micros(F.lit(BASE + 5)).alias("received"),
    )
    assert offset_rows(estimate_offsets(frame(spark, valid).union(out_of_range))) == offset_rows(
        estimate_offsets(frame(spark, valid))
    )


def test_redelivered_messages_have_no_effect(spark: SparkSession) -> None:
    messages = messages_of(lambda _: HOUR, device="a", hours=0.2)
    once, twice = (
        estimate_offsets(frame(spark, part)) for part in (messages, messages + messages[:20])
    )
    assert Counter(offset_rows(once)) == Counter(offset_rows(twice))
