"""Cumulative and calendar windows: literal tables, and streams that equal the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support import dst_oracle
from tests.support.hypothesis_profiles import few
from tests.support.window_frames import AGGS, SCHEMA, Transform, batch, instant, window_rows
from tests.support.window_oracle import Event, WindowRow
from tests.support.window_strategies import BASE, SPAN, WATERMARK_DELAY, Arrival, arrivals
from tidegate.aggregates import count
from tidegate.errors import ArgumentError
from tidegate.testing import StreamDriver
from tidegate.windows import Cumulative, cumulative, tumbling

N = {"n": count()}
HOUR = 3_600_000_000
# Event times are scaled from 40 seconds to 66 hours, from the day before a clock change.
TIME_SCALE = 6_000
CLOCK_CHANGES = {
    "Europe/Berlin": "2026-03-28 01:00:00",
    "America/Sao_Paulo": "2017-10-14 01:00:00",
    "America/St_Johns": "2005-10-29 02:00:00",
    "Australia/Lord_Howe": "2026-04-04 02:00:00",
    "Pacific/Apia": "2011-12-29 02:00:00",
}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window_texts(rows: list[Row]) -> list[str]:
    """Return rows as "start end n", with the day and time of day in UTC."""
    windows = sorted(
        (row.window.start.astimezone(UTC), row.window.end.astimezone(UTC), row.n) for row in rows
    )
    return [f"{start:%d %H:%M} {end:%d %H:%M} {n}" for start, end, n in windows]


def test_a_window_grows_by_the_step_within_its_cycle(spark: SparkSession) -> None:
    # hours   0     6     12    18    24    30
    # events  | x   |     | x   |     |x    |
    clicks = batch(spark, [Event(hour * HOUR, "a", 1) for hour in (3, 14, 24)])
    assert window_texts(cumulative(clicks, "6 hours", "1 day", by="key", aggs=N).collect()) == [
        "01 00:00 01 06:00 1",
        "01 00:00 01 12:00 1",  # a row without new events
        "01 00:00 01 18:00 2",
        "01 00:00 02 00:00 2",
        "02 00:00 02 06:00 1",
        "02 00:00 02 12:00 1",
        "02 00:00 02 18:00 1",
        "02 00:00 03 00:00 1",
    ]


def test_windows_start_with_the_first_event_of_a_key_and_apply_offsets_before_1970(
    spark: SparkSession,
) -> None:
    clicks = batch(spark, [Event(-1, "a", 1)])
    result = cumulative(clicks, "2 hours", timedelta(hours=8), aggs=N, offset="-1 hour")
    assert window_texts(result.collect()) == [
        "31 23:00 01 01:00 1",
        "31 23:00 01 03:00 1",
        "31 23:00 01 05:00 1",
        "31 23:00 01 07:00 1",
    ]


@pytest.mark.parametrize(
    ("day", "step", "size", "zone", "windows"),
    [
        # 23, 25 and 24.5 hours: the last window ends with the day.
        ("2026-03-28 23:00:00", "1 hour", "1 day", "Europe/Berlin", [*range(1, 24)]),
        ("2026-10-24 22:00:00", "1 hour", "1 day", "Europe/Berlin", [*range(1, 26)]),
        ("2026-10-24 22:00:00", "6 hours", "1 day", "Europe/Berlin", [6, 12, 18, 24, 25]),
        ("2026-04-04 13:00:00", "12 hours", "1 day", "Australia/Lord_Howe", [12, 24, 24.5]),
        (
            "2026-03-22 23:00:00",
            "1 day",
            "1 week",
            "Europe/Berlin",
            [24, 48, 72, 96, 120, 144, 167],
        ),
        # A skipped date has no window.
        ("2011-12-26 10:00:00", "1 day", "1 week", "Pacific/Apia", [24, 48, 72, 96, 120, 144]),
        ("2024-01-01 00:00:00", "1 month", "1 quarter", "UTC", [31 * 24, 60 * 24, 91 * 24]),
        (
            "2024-01-01 00:00:00",
            "1 quarter",
            "1 year",
            "UTC",
            [91 * 24, 182 * 24, 274 * 24, 366 * 24],
        ),
    ],
)
def test_steps_end_at_local_times_of_the_zone(
    spark: SparkSession, day: str, step: str, size: str, zone: str, windows: list[float]
) -> None:
    clicks = spark.createDataFrame([(utc(day),)], "event_time timestamp")
    ends = [
        (row.window.start.astimezone(UTC), (row.window.end - row.window.start) / timedelta(hours=1))
        for row in cumulative(clicks, step, size, aggs=N, zone=zone).collect()
    ]
    assert sorted(ends) == [(utc(day), hours) for hours in windows]


@dataclass(frozen=True)
class Case:
    """A transform in a zone, and its oracle."""

    transform: Callable[[DataFrame, str], DataFrame]
    oracle: Callable[[list[Event], str], list[WindowRow]]


def fixed_steps(events: list[Event], _: str) -> list[WindowRow]:
    """Return the windows of 3-hour steps in 12 hours of UTC."""

    def windows(micros: int) -> list[tuple[int, int]]:
        start = micros // (12 * HOUR) * 12 * HOUR
        return [(start, start + i * 3 * HOUR) for i in range(1, 5) if start + i * 3 * HOUR > micros]

    return dst_oracle.aggregate_windows(events, windows)


CASES = {
    "tumbling days": Case(
        lambda e, zone: tumbling(e, "1 day", by="key", aggs=AGGS, zone=zone),
        lambda events, zone: dst_oracle.tumbling(events, zone, "day"),
    ),
    "cumulative": Case(
        lambda e, _: cumulative(e, "3 hours", "12 hours", by="key", aggs=AGGS), fixed_steps
    ),
    "hours of a day, Spark aggregates": Case(
        lambda e, zone: cumulative(
            e, "8 hours", "1 day", by="key", aggs=AGGS | {"n": F.count(F.lit(1))}, zone=zone
        ),
        lambda events, zone: dst_oracle.cumulative(events, zone, "day", 8 * HOUR),
    ),
    "days of a week": Case(
        lambda e, zone: cumulative(e, "1 day", "1 week", by="key", aggs=AGGS, zone=zone),
        lambda events, zone: dst_oracle.cumulative(events, zone, "week", "day"),
    ),
}


def around_clock_change(arrival: Arrival, zone: str) -> Arrival:
    """Return the arrival with event times scaled and moved to a clock change of the zone."""
    start = dst_oracle.epoch_micros(utc(CLOCK_CHANGES[zone]))
    batches = [
        [e._replace(micros=start + (e.micros - BASE) * TIME_SCALE) for e in events]
        for events in arrival.batches
    ]
    return Arrival(batches, arrival.restarts)


def run_stream(spark: SparkSession, arrival: Arrival, transform: Transform) -> Counter[WindowRow]:
    """Return the results of the arrival as a stream with restarts."""
    watermark_delay = timedelta(microseconds=WATERMARK_DELAY * TIME_SCALE)
    with StreamDriver(spark, SCHEMA, transform, watermark_delay=watermark_delay) as stream:
        for number, events in enumerate(arrival.batches):
            stream.feed(batch(spark, events))
            if number in arrival.restarts:
                stream.restart()
        stream.advance_to(
            instant(max(event.micros for event in arrival.events) + 10 * SPAN * TIME_SCALE)
        )
        return window_rows(stream.results())


@pytest.mark.draws("name", short=["hours of a day, Spark aggregates"], long=list(CASES))
@pytest.mark.slow
def test_stream_and_batch_equal_the_oracle(spark: SparkSession, name: str) -> None:
    case = CASES[name]

    @few()
    @given(arrivals(), st.sampled_from(sorted(CLOCK_CHANGES)))
    def agree(drawn: Arrival, zone: str) -> None:
        arrival = around_clock_change(drawn, zone)
        expected = Counter(case.oracle(arrival.events, zone))
        assert window_rows(case.transform(batch(spark, arrival.events), zone)) == expected
        assert run_stream(spark, arrival, lambda events: case.transform(events, zone)) == expected

    agree()


@pytest.mark.slow
def test_a_row_is_late_at_the_watermark_of_late_at_and_then_in_no_window(
    spark: SparkSession,
) -> None:
    # A 23-hour day in Berlin; the watermark is at the end of its first 6 hours.
    day = dst_oracle.epoch_micros(utc("2026-03-28 23:00:00"))
    late, early = [Event(day + 6 * HOUR - 1, "late", 1)], [Event(day + 6 * HOUR, "in time", 1)]
    transform: Transform = lambda e: cumulative(  # noqa: E731
        e, "6 hours", "1 day", by="key", aggs=N, zone="Europe/Berlin"
    )
    with StreamDriver(spark, SCHEMA, transform, watermark_delay="0 seconds") as stream:
        stream.feed(batch(spark, [Event(day, "open", 1)]))
        assert window_texts(stream.advance_to(instant(day + 6 * HOUR))) == ["28 23:00 29 05:00 1"]
        stream.feed(batch(spark, late + early))
        rows = stream.advance_to(instant(day + 23 * HOUR))
    assert Counter(row.key for row in rows) == {"open": 3, "in time": 3}
    instants = batch(spark, late + early).select(
        Cumulative("6 hours", "1 day", zone="Europe/Berlin").late_at(F.col("event_time"))
    )
    ends = sorted(dst_oracle.epoch_micros(row[0].astimezone(UTC)) for row in instants.collect())
    assert ends == [day + 6 * HOUR, day + 12 * HOUR]


@pytest.mark.parametrize(
    ("step", "size", "options", "message"),
    [
        ("7 minutes", "1 hour", {}, "a multiple of the step"),
        ("2 hours", "1 hour", {}, "a multiple of the step"),
        ("0 seconds", "1 hour", {}, "invalid step: '0 seconds'"),
        ("1 day", "1 month", {}, "zone='UTC'"),
        ("1 month", "1 year", {}, "zone='UTC'"),
        ("5 hours", "1 day", {"zone": "UTC"}, "divides 24 hours"),
        ("1 week", "1 month", {"zone": "UTC"}, "1 day in any size"),
        ("2 days", "1 month", {"zone": "UTC"}, "1 day in any size"),
        ("2 months", "1 quarter", {"zone": "UTC"}, "1 day in any size"),
        ("1 month", "1 week", {"zone": "UTC"}, "1 day in any size"),
        ("1 hour", "36 hours", {"zone": "UTC"}, "days, weeks, months"),
        ("1 hour", "1 day", {"zone": "Mars/Base"}, "IANA"),
    ],
)
def test_a_step_that_does_not_divide_the_size_raises_at_the_call(
    spark: SparkSession, step: str, size: str, options: dict[str, Any], message: str
) -> None:
    clicks: DataFrame = batch(spark, [Event(BASE, "a", 1)])
    with pytest.raises(ArgumentError, match=message):
        cumulative(clicks, step, size, aggs=N, **options)
