"""Cumulative and calendar windows: literal tables, and a stream that agrees with the batch and with
plain Python."""

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

from tidegate.aggregates import count
from tidegate.errors import ArgumentError
from tidegate.testing import StreamDriver
from tidegate.windows import Cumulative, cumulative, tumbling

from ..drawing import few
from . import wall
from .frames import AGGS, SCHEMA, Transform, answers, batch, instant
from .oracle import Answer, Event
from .strategies import BASE, LATENESS, SPAN, Arrival, arrivals

N = {"n": count()}
HOUR = 3_600_000_000
# The events of 40 seconds stretched to 66 hours, from the day before a change of the zone's clocks
# on.
STRETCH = 6_000
CHANGES = {
    "Europe/Berlin": "2026-03-28 01:00:00",
    "America/Sao_Paulo": "2017-10-14 01:00:00",
    "America/St_Johns": "2005-10-29 02:00:00",
    "Australia/Lord_Howe": "2026-04-04 02:00:00",
    "Pacific/Apia": "2011-12-29 02:00:00",
}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def told(rows: list[Row]) -> list[str]:
    """Return rows as "start end n", of times the day and the time in UTC."""
    windows = sorted(
        (instant_of(row.window.start), instant_of(row.window.end), row.n) for row in rows
    )
    return [f"{start:%d %H:%M} {end:%d %H:%M} {n}" for start, end, n in windows]


def instant_of(value: datetime) -> datetime:
    return value.astimezone(UTC)


def test_a_window_grows_by_the_step_and_starts_anew_with_the_cycle(spark: SparkSession) -> None:
    # hours   0     6     12    18    24    30
    # events  | x   |     | x   |     |x    |
    clicks = batch(spark, [Event(hour * HOUR, "a", 1) for hour in (3, 14, 24)])
    assert told(cumulative(clicks, "6 hours", "1 day", by="key", aggs=N).collect()) == [
        "01 00:00 01 06:00 1",
        "01 00:00 01 12:00 1",  # no event since the last, and a row all the same
        "01 00:00 01 18:00 2",
        "01 00:00 02 00:00 2",
        "02 00:00 02 06:00 1",
        "02 00:00 02 12:00 1",
        "02 00:00 02 18:00 1",
        "02 00:00 03 00:00 1",
    ]


def test_a_key_has_no_window_before_its_first_event_and_offsets_and_times_before_1970_count(
    spark: SparkSession,
) -> None:
    clicks = batch(spark, [Event(-1, "a", 1)])
    found = cumulative(clicks, "2 hours", timedelta(hours=8), aggs=N, offset="-1 hour")
    assert told(found.collect()) == [
        "31 23:00 01 01:00 1",
        "31 23:00 01 03:00 1",
        "31 23:00 01 05:00 1",
        "31 23:00 01 07:00 1",
    ]


@pytest.mark.parametrize(
    ("day", "step", "size", "zone", "windows"),
    [
        # 23 hours, 25 hours, and 24 and a half: the last window is cut where the day ends.
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
        # A date that was skipped makes no window, and none twice.
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
def test_steps_of_hours_and_of_the_calendar_end_where_the_zones_clocks_say(
    spark: SparkSession, day: str, step: str, size: str, zone: str, windows: list[float]
) -> None:
    clicks = spark.createDataFrame([(at(day),)], "event_time timestamp")
    ends = [
        (row.window.start.astimezone(UTC), (row.window.end - row.window.start) / timedelta(hours=1))
        for row in cumulative(clicks, step, size, aggs=N, zone=zone).collect()
    ]
    assert sorted(ends) == [(at(day), hours) for hours in windows]


@dataclass(frozen=True)
class Case:
    """A transform in a zone, and its definition."""

    transform: Callable[[DataFrame, str], DataFrame]
    oracle: Callable[[list[Event], str], list[Answer]]


def fixed(events: list[Event], _: str) -> list[Answer]:
    """Return windows of 3 hours' steps in 12 hours of UTC."""

    def windows(micros: int) -> list[tuple[int, int]]:
        start = micros // (12 * HOUR) * 12 * HOUR
        return [(start, start + i * 3 * HOUR) for i in range(1, 5) if start + i * 3 * HOUR > micros]

    return wall.grown(events, windows)


CASES = {
    "tumbling days": Case(
        lambda e, zone: tumbling(e, "1 day", by="key", aggs=AGGS, zone=zone),
        lambda events, zone: wall.tumbling(events, zone, "day"),
    ),
    "cumulative": Case(
        lambda e, _: cumulative(e, "3 hours", "12 hours", by="key", aggs=AGGS), fixed
    ),
    "hours of a day, copied": Case(
        lambda e, zone: cumulative(
            e, "8 hours", "1 day", by="key", aggs=AGGS | {"n": F.count(F.lit(1))}, zone=zone
        ),
        lambda events, zone: wall.cumulative(events, zone, "day", 8 * HOUR),
    ),
    "days of a week": Case(
        lambda e, zone: cumulative(e, "1 day", "1 week", by="key", aggs=AGGS, zone=zone),
        lambda events, zone: wall.cumulative(events, zone, "week", "day"),
    ),
}


def stretched(arrival: Arrival, zone: str) -> Arrival:
    """Return the arrival with a longer time between its events, around a change of the zone's
    clocks."""
    start = wall.since(at(CHANGES[zone]))
    batches = [
        [e._replace(micros=start + (e.micros - BASE) * STRETCH) for e in events]
        for events in arrival.batches
    ]
    return Arrival(batches, arrival.restarts)


def streamed(spark: SparkSession, arrival: Arrival, transform: Transform) -> Counter[Answer]:
    """Run the arrival as a stream, restarts included, to its end, and give what came out."""
    lateness = timedelta(microseconds=LATENESS * STRETCH)
    with StreamDriver(spark, SCHEMA, transform, lateness=lateness) as stream:
        for number, events in enumerate(arrival.batches):
            stream.feed(batch(spark, events))
            if number in arrival.restarts:
                stream.restart()
        stream.advance_to(
            instant(max(event.micros for event in arrival.events) + 10 * SPAN * STRETCH)
        )
        return answers(stream.results())


@pytest.mark.draws("name", short=["hours of a day, copied"], long=list(CASES))
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(spark: SparkSession, name: str) -> None:
    case = CASES[name]

    @few()
    @given(arrivals(), st.sampled_from(sorted(CHANGES)))
    def agree(drawn: Arrival, zone: str) -> None:
        arrival = stretched(drawn, zone)
        expected = Counter(case.oracle(arrival.events, zone))
        assert answers(case.transform(batch(spark, arrival.events), zone)) == expected
        assert streamed(spark, arrival, lambda events: case.transform(events, zone)) == expected

    agree()


@pytest.mark.slow
def test_a_row_is_late_from_the_instant_that_late_at_tells_and_is_then_in_no_window(
    spark: SparkSession,
) -> None:
    # Berlin's day of 23 hours; the watermark stands at the end of its first 6 hours.
    day = wall.since(at("2026-03-28 23:00:00"))
    late, early = [Event(day + 6 * HOUR - 1, "late", 1)], [Event(day + 6 * HOUR, "in time", 1)]
    transform: Transform = lambda e: cumulative(  # noqa: E731
        e, "6 hours", "1 day", by="key", aggs=N, zone="Europe/Berlin"
    )
    with StreamDriver(spark, SCHEMA, transform, lateness="0 seconds") as stream:
        stream.feed(batch(spark, [Event(day, "open", 1)]))
        assert told(stream.advance_to(instant(day + 6 * HOUR))) == ["28 23:00 29 05:00 1"]
        stream.feed(batch(spark, late + early))
        came = stream.advance_to(instant(day + 23 * HOUR))
    assert Counter(row.key for row in came) == {"open": 3, "in time": 3}
    instants = batch(spark, late + early).select(
        Cumulative("6 hours", "1 day", zone="Europe/Berlin").late_at(F.col("event_time"))
    )
    ends = sorted(wall.since(row[0].astimezone(UTC)) for row in instants.collect())
    assert ends == [day + 6 * HOUR, day + 12 * HOUR]


@pytest.mark.parametrize(
    ("step", "size", "options", "says"),
    [
        ("7 minutes", "1 hour", {}, "a multiple of the step"),
        ("2 hours", "1 hour", {}, "a multiple of the step"),
        ("0 seconds", "1 hour", {}, "step is '0 seconds'"),
        ("1 day", "1 month", {}, "zone='UTC'"),
        ("1 month", "1 year", {}, "zone='UTC'"),
        ("5 hours", "1 day", {"zone": "UTC"}, "goes into 24 hours"),
        ("1 week", "1 month", {"zone": "UTC"}, "1 day in any size"),
        ("2 days", "1 month", {"zone": "UTC"}, "1 day in any size"),
        ("2 months", "1 quarter", {"zone": "UTC"}, "1 day in any size"),
        ("1 month", "1 week", {"zone": "UTC"}, "1 day in any size"),
        ("1 hour", "36 hours", {"zone": "UTC"}, "whole days, weeks, months"),
        ("1 hour", "1 day", {"zone": "Mars/Base"}, "IANA"),
    ],
)
def test_a_step_that_does_not_fill_the_size_is_refused_at_the_call(
    spark: SparkSession, step: str, size: str, options: dict[str, Any], says: str
) -> None:
    clicks: DataFrame = batch(spark, [Event(BASE, "a", 1)])
    with pytest.raises(ArgumentError, match=says):
        cumulative(clicks, step, size, aggs=N, **options)
