"""Device clocks: the three timestamps, and offsets by the median of many messages, with steps of
the clock noticed."""

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

from tidegate.commit import EPOCH
from tidegate.errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    TidegateError,
    WatermarkError,
)
from tidegate.eventtime import clock_offsets, server_time, shifted
from tidegate.testing import StreamDriver

from ..drawing import few, varied

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
BASE = 1_760_000_400 * SECOND // HOUR * HOUR
SCHEMA = "device string, sent timestamp, received timestamp"


class Message(NamedTuple):
    """A message: the device, and microseconds since 1970 by its clock when sent, by the server's
    when received."""

    device: str | None
    sent: int | None
    received: int


class Offset(NamedTuple):
    """An offset as the transform gives it, times in microseconds since 1970."""

    device: str | None
    begin: int
    end: int
    offset: int
    messages: int


def instant(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def frame(spark: SparkSession, messages: Iterable[Message]) -> DataFrame:
    return spark.createDataFrame(
        [(m.device, instant(m.sent), instant(m.received)) for m in messages], SCHEMA
    )


def offsets(found: DataFrame) -> list[Offset]:
    micros = [F.unix_micros(bound) for bound in ("valid_from", "valid_to")]
    return sorted(
        Offset(*row) for row in found.select("device", *micros, "offset", "messages").collect()
    )


def estimated(events: DataFrame, **options: Any) -> DataFrame:
    return clock_offsets(events, device="device", sent="sent", received="received", **options)


def expected(messages: Iterable[Message], every: int, step: int, confirm: int) -> list[Offset]:
    """Return the offsets from their definition: collect, cut where the sides agree on different
    medians, take medians."""
    known: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for message in messages:
        if message.device is not None and message.sent is not None:
            known[message.device].add((message.received, message.received - message.sent))
    found = []
    for device, pairs in known.items():
        for begin in sorted({received // every * every for received, _ in pairs}):
            low, high = begin - every // 2, begin - every // 2 + 2 * every
            near = sorted(pair for pair in pairs if low <= pair[0] < high)
            edges = [0, *steps([away for _, away in near], step, confirm), len(near)]
            for first, stop in pairwise(edges):
                start = max(begin, near[first][0]) if first else begin
                end = min(begin + every, near[stop][0]) if stop < len(near) else begin + every
                level = near[first:stop]
                if start < end and any(begin <= received < begin + every for received, _ in level):
                    found.append(
                        Offset(
                            device, start, end, median_low(away for _, away in level), len(level)
                        )
                    )
    return sorted(found)


def steps(away: list[int], step: int, confirm: int) -> list[int]:
    """Return the places at which a clock has jumped: the first message that is nearer to what
    follows."""
    found = []
    for at in range(confirm, len(away) - confirm + 1):
        left, right = away[at - confirm : at], away[at : at + confirm]
        before, after = median_low(left), median_low(right)
        spread = max(
            median_low(abs(x - before) for x in left), median_low(abs(x - after) for x in right)
        )
        last, own = away[at - 1], away[at]
        turned = abs(last - before) < abs(last - after) and abs(own - after) < abs(own - before)
        if abs(after - before) > step and 2 * spread <= step and turned:
            found.append(at)
    return found


def sent_by(
    clock: Callable[[int], int], *, device: str, hours: float, slow: float = 0.0, seed: int = 1
) -> list[Message]:
    """Draw a message every 20 seconds from a device.

    `clock` tells by how many microseconds the device is off at an instant. A message is on its way
    for up to 300 ms, and of the share `slow` for 5 seconds to 2 minutes.
    """
    rng = Random(seed)
    drawn = []
    for sent in range(BASE, BASE + int(hours * HOUR), 20 * SECOND):
        way = (
            rng.randrange(5 * SECOND, 120 * SECOND)
            if rng.random() < slow
            else rng.randrange(300_000)
        )
        drawn.append(Message(device, sent - clock(sent), sent + way))
    return drawn


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> tuple[list[Message], list[Offset]]:
    """The offsets of six devices, whose clocks go wrong in as many ways, from one query."""
    jump = BASE + 95 * MINUTE
    messages = [
        *sent_by(lambda _: HOUR, device="an hour slow", hours=3),
        *sent_by(lambda _: -3 * 24 * HOUR, device="three days fast", hours=3),
        *sent_by(lambda at: (at - BASE) * 50 // 10**6, device="drifting by 50 ppm", hours=6),
        *sent_by(lambda at: -HOUR if at < jump else 0, device="set right", hours=3),
        *sent_by(
            lambda at: 0 if at < jump else 60 * SECOND,
            device="set wrong in a slow network",
            hours=3,
            slow=0.1,
        ),
        *sent_by(lambda _: HOUR, device="slow network", hours=3, slow=0.2),
    ]
    Random(7).shuffle(messages)
    return messages, offsets(estimated(frame(spark, messages), messages=9))


def of(fleet: tuple[list[Message], list[Offset]], device: str) -> list[Offset]:
    return [found for found in fleet[1] if found.device == device]


@pytest.mark.parametrize(
    ("device", "off"), [("an hour slow", HOUR), ("three days fast", -3 * 24 * HOUR)]
)
def test_a_clock_that_is_off_is_off_by_the_median_of_its_messages(
    fleet: tuple[list[Message], list[Offset]], device: str, off: int
) -> None:
    found = of(fleet, device)
    assert [(row.begin, row.end) for row in found[:3]] == [
        (BASE + i * HOUR, BASE + (i + 1) * HOUR) for i in range(3)
    ]
    assert all(
        100_000 < row.offset - off < 200_000 for row in found[:3]
    )  # half of the 300 ms on the way


def test_a_drifting_clock_is_followed_from_hour_to_hour(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    found = [row for row in of(fleet, "drifting by 50 ppm") if row.end <= BASE + 6 * HOUR]
    assert len(found) == 6
    for row in found[1:-1]:
        middle = (row.begin + row.end) // 2
        assert abs(row.offset - 150_000 - (middle - BASE) * 50 // 10**6) < 50_000
    assert found[-1].offset - found[0].offset > 600_000  # 180 ms an hour


def test_a_step_ends_one_offset_and_begins_another_at_the_first_message_after_it(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    messages = [m for m in fleet[0] if m.device == "set right"]
    first = min(m.received for m in messages if m.received - (m.sent or 0) > -10 * SECOND)
    assert [(row.begin, row.end, row.offset // HOUR) for row in of(fleet, "set right")[:4]] == [
        (BASE, BASE + HOUR, -1),
        (BASE + HOUR, first, -1),
        (first, BASE + 2 * HOUR, 0),
        (BASE + 2 * HOUR, BASE + 3 * HOUR, 0),
    ]


def test_slow_messages_are_no_steps_and_move_no_offset(
    fleet: tuple[list[Message], list[Offset]],
) -> None:
    slow = of(fleet, "slow network")
    assert len({row.begin for row in slow}) == len(slow)
    assert all(abs(row.offset - HOUR) < 300_000 for row in slow if row.end <= BASE + 3 * HOUR)


def test_a_step_is_found_among_slow_messages(fleet: tuple[list[Message], list[Offset]]) -> None:
    found = [row for row in of(fleet, "set wrong in a slow network") if row.end <= BASE + 3 * HOUR]
    after = [row.begin for row in found if row.offset > 59 * SECOND]
    assert [round(row.offset / SECOND) for row in found] == [0] * (len(found) - len(after)) + [
        60
    ] * len(after)
    assert len(after) == 2
    assert abs(after[0] - (BASE + 95 * MINUTE)) < MINUTE


def test_the_fleet_agrees_with_plain_python(fleet: tuple[list[Message], list[Offset]]) -> None:
    assert fleet[1] == expected(fleet[0], HOUR, 10 * SECOND, 9)


def drawn() -> st.SearchStrategy[list[Message]]:
    """Draw messages that crowd around the ends of minutes, with a few levels of offsets, doubles
    and nulls."""
    received = st.one_of(
        st.integers(0, 5 * MINUTE), st.sampled_from([0, MINUTE - 1, MINUTE, 2 * MINUTE])
    )
    away = st.one_of(
        st.sampled_from([0, 30 * SECOND, -30 * SECOND]), st.integers(-60 * SECOND, 60 * SECOND)
    )
    message = st.builds(
        lambda device, at, by, null: Message(device, None if null else BASE + at - by, BASE + at),
        st.sampled_from(["a", "a", "a", "b", None]),
        received,
        away,
        st.sampled_from([False] * 9 + [True]),
    )
    return varied(st.lists(message, min_size=2, max_size=80))


@pytest.mark.draws
@few()
@given(drawn(), st.integers(0, 79), st.integers(0, 4))
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(
    spark: SparkSession, messages: list[Message], cut: int, again: int
) -> None:
    options = {"every": "1 minute", "step": "10 seconds", "messages": 3}
    wanted = expected(messages, MINUTE, 10 * SECOND, 3)
    assert offsets(estimated(frame(spark, messages), **options)) == wanted
    parts = [part for part in (messages[:cut], messages[cut:] + messages[:again]) if part]
    transform = lambda events: estimated(events, **options)  # noqa: E731
    with StreamDriver(spark, SCHEMA, transform, lateness="5 minutes", time="received") as stream:
        for part in parts:
            stream.feed(frame(spark, part))
            stream.restart()
        stream.advance_to(EPOCH + timedelta(microseconds=BASE + 24 * HOUR))
        assert offsets(stream.results()) == wanted


def test_three_timestamps_correct_to_the_microsecond_and_never_fail(spark: SparkSession) -> None:
    hour, far = HOUR, 250_000_000_000 * SECOND
    rows = [
        # occurred, sent, received, the answer, the answer when none is held for more than an hour
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
    given = spark.createDataFrame(
        [(i, *row[:3]) for i, row in enumerate(rows)],
        "i int, occurred long, sent long, received long",
    ).select(
        "i", *[F.timestamp_micros(name).alias(name) for name in ("occurred", "sent", "received")]
    )
    found = given.select(
        "i",
        F.unix_micros(server_time("occurred", "sent", F.col("received"))).alias("all"),
        F.unix_micros(server_time("occurred", "sent", "received", longest="1 hour")).alias("held"),
        F.unix_micros(
            shifted("occurred", F.unix_micros("received") - F.unix_micros("occurred"))
        ).alias("shifted"),
    )
    answers = (
        found.where("i < 10").orderBy("i").collect()
        + found.where("i >= 10").drop("shifted").orderBy("i").collect()
    )
    assert [(row["all"], row["held"]) for row in answers] == [row[3:] for row in rows]
    assert [row["shifted"] for row in answers[:6]] == [row[2] for row in rows[:6]]


def test_an_offset_moves_a_time_or_gives_null_past_the_calendar(spark: SparkSession) -> None:
    moved = spark.range(1).select(
        F.unix_micros(shifted(F.timestamp_micros(F.lit(5)), F.lit(-7))).alias("back"),
        shifted(F.timestamp_micros(F.lit(2**62)), F.lit(2**62)).alias("over"),
        shifted(F.timestamp_micros(F.lit(0)), F.lit(None).cast("bigint")).alias("none"),
    )
    assert tuple(moved.collect()[0]) == (-2, None, None)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"device": "nowhere"}, ColumnError, "device names 'nowhere'"),
        ({"sent": "nowhere"}, ColumnError, "sent names 'nowhere'"),
        ({"sent": "device"}, ColumnTypeError, "sent='device' is of type string"),
        ({"received": "device"}, ColumnTypeError, "is of type string"),
        ({"every": "1 month"}, ArgumentError, "every is '1 month'"),
        ({"every": "1 microsecond"}, ArgumentError, "at least 2"),
        ({"step": "0 seconds"}, ArgumentError, "step is '0 seconds'"),
        ({"messages": 0}, ArgumentError, "messages is 0"),
        ({"device": "offset"}, ColumnError, "offset"),
    ],
)
def test_a_bad_argument_is_refused_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[TidegateError], says: str
) -> None:
    events = frame(spark, []).withColumn("offset", F.lit("a"))
    with pytest.raises(error, match=says):
        clock_offsets(
            events, **{"device": "device", "sent": "sent", "received": "received"} | options
        )


def test_a_stream_without_a_watermark_on_received_is_refused(spark: SparkSession) -> None:
    rate = (
        spark.readStream.format("rate")
        .load()
        .withColumnsRenamed({"value": "device", "timestamp": "received"})
    )
    events = rate.withColumn("sent", F.col("received"))
    with pytest.raises(WatermarkError, match="received"):
        estimated(events)


def test_a_clock_that_shows_nonsense_stops_nothing(spark: SparkSession) -> None:
    sane = sent_by(lambda _: HOUR, device="a", hours=0.2)
    nonsense = spark.createDataFrame(
        [("a", 2**63 - 1), ("a", -(2**63))] * 9, "device string, sent long"
    ).select(
        "device",
        F.timestamp_micros("sent").alias("sent"),
        F.timestamp_micros(F.lit(BASE + 5)).alias("received"),
    )
    assert offsets(estimated(frame(spark, sane).union(nonsense))) == offsets(
        estimated(frame(spark, sane))
    )


def test_redelivery_changes_nothing(spark: SparkSession) -> None:
    messages = sent_by(lambda _: HOUR, device="a", hours=0.2)
    once, twice = (estimated(frame(spark, part)) for part in (messages, messages + messages[:20]))
    assert Counter(offsets(once)) == Counter(offsets(twice))
