"""Calendar windows: days of 23 and 25 hours, skipped midnights, months, weeks, all time zones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support import dst_oracle
from tests.support.window_frames import instant
from tidegate.aggregates import count
from tidegate.calendars import Calendar, calendar
from tidegate.errors import ArgumentError, ColumnTypeError, TidegateError
from tidegate.windows import Cumulative, Tumbling, cumulative, tumbling

N = {"n": count()}
HOUR = 3_600_000_000
# Zone, UTC time, size, local start of its window, length of the window in hours.
LITERAL = [
    ("UTC", "2026-03-29 12:00:00", "1 day", "2026-03-29T00:00:00+00:00", 24),
    ("Europe/Berlin", "2026-03-29 12:00:00", "1 day", "2026-03-29T00:00:00+01:00", 23),
    ("Europe/Berlin", "2026-10-25 12:00:00", "1 day", "2026-10-25T00:00:00+02:00", 25),
    ("Europe/Berlin", "2026-03-28 22:59:59", "1 day", "2026-03-28T00:00:00+01:00", 24),
    ("Europe/Berlin", "2026-03-28 23:00:00", "1 day", "2026-03-29T00:00:00+01:00", 23),
    ("America/New_York", "2026-03-08 12:00:00", "1 day", "2026-03-08T00:00:00-05:00", 23),
    ("America/New_York", "2026-11-01 12:00:00", "1 day", "2026-11-01T00:00:00-04:00", 25),
    ("Australia/Lord_Howe", "2026-04-05 01:00:00", "1 day", "2026-04-05T00:00:00+11:00", 24.5),
    ("Asia/Kathmandu", "2026-04-05 18:15:00", "1 day", "2026-04-06T00:00:00+05:45", 24),
    # Skipped midnight: clocks change from 24:00 to 01:00.
    ("America/Sao_Paulo", "2017-10-15 12:00:00", "1 day", "2017-10-15T01:00:00-02:00", 23),
    ("America/Sao_Paulo", "2017-10-15 02:59:59", "1 day", "2017-10-14T00:00:00-03:00", 24),
    ("Asia/Beirut", "2022-03-27 12:00:00", "1 day", "2022-03-27T01:00:00+03:00", 23),
    ("Africa/Cairo", "2010-04-30 12:00:00", "1 day", "2010-04-30T01:00:00+03:00", 23),
    # Clocks change from 24:00 to 23:00: the hour from 23:00 repeats.
    ("America/Sao_Paulo", "2018-02-18 02:30:00", "1 day", "2018-02-17T00:00:00-02:00", 25),
    # Two midnights: clocks change from 01:00 to 00:00.
    ("America/Havana", "2023-11-05 05:30:00", "1 day", "2023-11-05T00:00:00-04:00", 25),
    # Clocks change at 00:01 to the previous date: the day has started nevertheless.
    ("America/St_Johns", "2005-10-30 02:30:30", "1 day", "2005-10-30T00:00:00-02:30", 25),
    ("America/St_Johns", "2005-10-30 02:40:00", "1 day", "2005-10-30T00:00:00-02:30", 25),
    # The date 2011-12-30 was skipped.
    ("Pacific/Apia", "2011-12-30 09:59:59", "1 day", "2011-12-29T00:00:00-10:00", 24),
    ("Pacific/Apia", "2011-12-30 10:00:00", "1 day", "2011-12-31T00:00:00+14:00", 24),
    # Clocks changed from 23:30 to 00:30: the start of the day moves by the length of the skip.
    ("America/Toronto", "1919-03-31 04:59:59", "1 day", "1919-03-30T00:00:00-05:00", 24),
    ("America/Toronto", "1919-03-31 05:00:00", "1 day", "1919-03-31T01:00:00-04:00", 23),
    ("Africa/Monrovia", "1971-06-01 12:00:00", "1 day", "1971-06-01T00:00:00-00:44:30", 24),
    ("Europe/Berlin", "1969-12-31 23:30:00", "1 day", "1970-01-01T00:00:00+01:00", 24),
    ("Europe/Berlin", "1916-05-01 12:00:00", "1 day", "1916-05-01T00:00:00+02:00", 24),
    # Weeks start on Monday, also across years and before 1970.
    ("Europe/Berlin", "2024-12-31 12:00:00", "1 week", "2024-12-30T00:00:00+01:00", 168),
    ("Europe/Berlin", "2026-03-29 12:00:00", "1 week", "2026-03-23T00:00:00+01:00", 167),
    ("America/New_York", "1965-01-02 12:00:00", "1 week", "1964-12-28T00:00:00-05:00", 168),
    ("UTC", "1970-01-01 00:00:00", "2 weeks", "1969-12-29T00:00:00+00:00", 336),
    # Months, quarters, years.
    ("Europe/Berlin", "2024-02-29 22:59:59", "1 month", "2024-02-01T00:00:00+01:00", 696),
    ("Europe/Berlin", "2024-02-29 23:00:00", "1 month", "2024-03-01T00:00:00+01:00", 743),
    ("Europe/Berlin", "2100-02-28 12:00:00", "1 month", "2100-02-01T00:00:00+01:00", 672),
    ("UTC", "1968-02-29 12:00:00", "1 month", "1968-02-01T00:00:00+00:00", 696),
    ("UTC", "1969-12-31 12:00:00", "1 quarter", "1969-10-01T00:00:00+00:00", 92 * 24),
    ("UTC", "2024-12-31 12:00:00", "3 months", "2024-10-01T00:00:00+00:00", 92 * 24),
    ("Asia/Tokyo", "2023-12-31 15:00:00", "1 year", "2024-01-01T00:00:00+09:00", 366 * 24),
    ("UTC", "1969-12-31 12:00:00", "2 days", "1969-12-30T00:00:00+00:00", 48),
]
# With a local time as the offset.
SHIFTED = [
    ("Europe/Berlin", "2026-03-29 03:59:59", "6 hours", "2026-03-28T06:00:00+01:00", 23),
    ("Europe/Berlin", "2026-03-29 04:00:00", "6 hours", "2026-03-29T06:00:00+02:00", 24),
    ("Europe/Berlin", "2026-03-29 04:00:00", "-2 hours", "2026-03-28T22:00:00+01:00", 23),
    # 02:30 does not exist: the day starts half an hour after the clock change.
    ("Europe/Berlin", "2026-03-29 01:29:59", "150 minutes", "2026-03-28T02:30:00+01:00", 24),
    ("Europe/Berlin", "2026-03-29 01:30:00", "150 minutes", "2026-03-29T03:30:00+02:00", 23),
    ("Europe/Berlin", "2026-10-25 00:30:00", "150 minutes", "2026-10-25T02:30:00+02:00", 25),
]
ZONES = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Antarctica/Casey",
    "Pacific/Apia",
    "Pacific/Chatham",
]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def bounds(window: Column) -> tuple[Column, Column]:
    return F.unix_micros(window["start"]).alias("start"), F.unix_micros(window["end"]).alias("end")


def calendar_by_column(size: str, offset: str = "0 seconds") -> Calendar:
    """Return a calendar with the zone of a column, so that one query computes many zones."""
    return replace(calendar(size, "UTC", offset), zone=F.col("zone"))  # type: ignore[arg-type]


def window_bounds(spark: SparkSession, cases: list[tuple[str, datetime, str, str]]) -> list[Row]:
    """Return i, start and end of the windows of (zone, instant, size, offset), in one query."""
    rows = [(i, *case) for i, case in enumerate(cases)]
    frame = spark.createDataFrame(
        rows, "i int, zone string, t timestamp, size string, offset string"
    )
    options = sorted({(size, offset) for _, _, size, offset in cases})
    parts = [
        frame.where((F.col("size") == size) & (F.col("offset") == offset)).select(
            "i", *bounds(calendar_by_column(size, offset).window(F.col("t")))
        )
        for size, offset in options
    ]
    return reduce(DataFrame.union, parts).collect()


@pytest.mark.slow
def test_windows_start_at_local_midnight(spark: SparkSession) -> None:
    cases = [(*case, "0 seconds") for case in LITERAL]
    cases += [
        (zone, time, "1 day", start, hours, offset) for zone, time, offset, start, hours in SHIFTED
    ]
    rows = window_bounds(
        spark, [(zone, utc(time), size, offset) for zone, time, size, _, _, offset in cases]
    )
    assert len(rows) == len(cases)
    for row in rows:
        start, hours = cases[row.i][3:5]
        assert (instant(row.start), (row.end - row.start) / HOUR) == (
            datetime.fromisoformat(start),
            hours,
        ), cases[row.i]


def random_instants(zone: str, rng: Random) -> Iterator[int]:
    """Return instants from 1980 to 2021: around clock changes, and at random."""
    hours = range(
        round(utc("1980-01-01").timestamp()), round(utc("2021-06-01").timestamp()), 12 * 3600
    )
    offsets = [
        (second, instant(second * 10**6).astimezone(ZoneInfo(zone)).utcoffset()) for second in hours
    ]
    changes = [second for (second, before), (_, after) in pairwise(offsets) if before != after]
    for second in rng.sample(changes, min(len(changes), 10)):
        yield from (
            (second + rng.randrange(-48 * 3600, 48 * 3600)) * 10**6 + rng.randrange(10**6)
            for _ in range(6)
        )
    yield from (rng.randrange(hours.start, hours.stop) * 10**6 for _ in range(12))


@pytest.mark.slow
def test_windows_of_every_zone_equal_the_oracle(spark: SparkSession) -> None:
    rng = Random(6)
    units: list[dst_oracle.Unit] = ["day", "day", "week", "month"]
    drawn = [
        (zone, micros, rng.choice(units)) for zone in ZONES for micros in random_instants(zone, rng)
    ]
    rows = window_bounds(
        spark, [(zone, instant(micros), f"1 {unit}", "0 seconds") for zone, micros, unit in drawn]
    )
    assert len(rows) == len(drawn)
    expected = [dst_oracle.period(micros, zone, unit) for zone, micros, unit in drawn]
    assert [drawn[row.i] for row in rows if (row.start, row.end) != expected[row.i]] == []


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(utc("2026-03-29 12:00:00"), "a", 1), (None, "a", 2)],
        "event_time timestamp, key string, value int",
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia", "UTC"])
@pytest.mark.slow
def test_the_session_time_zone_has_no_effect(
    spark: SparkSession, clicks: DataFrame, zone: str
) -> None:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        months = (
            tumbling(clicks, "1 month", aggs=N, zone="Europe/Berlin")
            .select(*bounds(F.col("window")), "n")
            .collect()
        )
        days = (
            cumulative(clicks, "1 day", "1 week", aggs=N, zone="Europe/Berlin")
            .select(*bounds(F.col("window")), "n")
            .collect()
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    march, april = (
        dst_oracle.epoch_micros(utc(text))
        for text in ("2026-02-28 23:00:00", "2026-03-31 22:00:00")
    )
    assert [tuple(row) for row in months] == [(march, april, 1)]
    assert [tuple(row) for row in days] == [
        (dst_oracle.epoch_micros(utc("2026-03-22 23:00:00")), april - 48 * HOUR, 1)
    ]


def test_without_a_zone_a_day_is_24_hours_in_utc(clicks: DataFrame) -> None:
    row = tumbling(clicks, "1 day", aggs=N).collect()[0]
    assert row.window.start.timestamp() == utc("2026-03-29").timestamp()


def test_spark_aggregates_and_a_column_named_window_are_allowed(clicks: DataFrame) -> None:
    named = clicks.withColumnRenamed("value", "window")
    result = tumbling(
        named, "1 day", by="key", aggs={"spread": F.max("window"), **N}, zone="Asia/Tokyo"
    )
    assert result.columns == ["window", "key", "spread", "n"]
    assert [tuple(row)[1:] for row in result.collect()] == [("a", 1, 1)]
    assert result.select(F.unix_seconds(F.date_trunc("second", F.window_time("window")))).collect()[
        0
    ][0] == round(utc("2026-03-29 14:59:59").timestamp())


@pytest.mark.parametrize(
    ("size", "options", "error", "message"),
    [
        ("1 month", {}, ArgumentError, "zone='UTC'"),
        ("1 day", {"zone": "Mars/Base"}, ArgumentError, "IANA"),
        ("1 day", {"zone": "Europe/Berlim"}, ArgumentError, "zone='Europe/Berlin'"),
        ("1 day", {"zone": "../etc/passwd"}, ArgumentError, "invalid zone"),
        ("1 day", {"zone": "Europe"}, ArgumentError, "invalid zone"),
        ("1 day", {"zone": "Factory"}, ArgumentError, "unknown to Spark's Java"),
        ("1 day", {"zone": 1}, ColumnTypeError, "a name such as"),
        ("90 minutes", {"zone": "Europe/Berlin"}, ArgumentError, "days, weeks, months"),
        ("1 day 12 hours", {"zone": "Europe/Berlin"}, ArgumentError, "days, weeks, months"),
        (timedelta(days=1), {"zone": "Europe/Berlin"}, ArgumentError, "size='1 day'"),
        ("0 days", {"zone": "Europe/Berlin"}, ArgumentError, "at least one"),
        ("101 years", {"zone": "Europe/Berlin"}, ArgumentError, "century"),
        (
            "1 day",
            {"zone": "Europe/Berlin", "offset": "soon"},
            ArgumentError,
            "invalid offset: 'soon'",
        ),
    ],
)
def test_an_invalid_calendar_raises_at_the_call(
    clicks: DataFrame, size: Any, options: dict[str, Any], error: type[TidegateError], message: str
) -> None:
    with pytest.raises(error, match=message):
        tumbling(clicks, size, aggs=N, **options)


def test_a_row_is_late_when_its_first_window_has_ended(clicks: DataFrame) -> None:
    time = F.col("event_time")
    instants = clicks.where(time.isNotNull()).select(
        Tumbling("1 day", zone="Europe/Berlin").late_at(time).alias("day"),
        Cumulative("1 hour", "1 day", zone="Asia/Kolkata").late_at(time).alias("hour"),
        Cumulative("5 minutes", "1 hour").late_at(time).alias("minutes"),
    )
    seconds = [round(value.timestamp()) for value in instants.collect()[0]]
    expected = ("2026-03-29 22:00:00", "2026-03-29 12:30:00", "2026-03-29 12:05:00")
    assert seconds == [round(utc(text).timestamp()) for text in expected]
