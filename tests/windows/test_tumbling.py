"""Tumbling windows: bounds, alignment, keys, and lengths from a microsecond to a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import avg, count
from tidegate.windows import session, tumbling

N = {"n": count()}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_an_event_on_a_boundary_is_in_the_window_that_starts_there(
    spark: SparkSession,
) -> None:
    # 10:03:00 |x . . . . x| 10:04:00 |x ...
    clicks = spark.createDataFrame(
        [
            (utc("2026-01-01 10:03:00"), 10),
            (utc("2026-01-01 10:03:59.999999"), 30),
            (utc("2026-01-01 10:04:00"), 5),
        ],
        "event_time timestamp, ms int",
    )
    result = tumbling(clicks, "1 minute", aggs={"n": count(), "ms": avg("ms")})
    expected = spark.createDataFrame(
        [
            ((utc("2026-01-01 10:03:00"), utc("2026-01-01 10:04:00")), 2, 20.0),
            ((utc("2026-01-01 10:04:00"), utc("2026-01-01 10:05:00")), 1, 5.0),
        ],
        "window struct<start timestamp, end timestamp>, n bigint, ms double",
    )
    assert_df_equality(
        result, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


@pytest.mark.parametrize(
    ("time", "size", "start", "end"),
    [
        ("1969-12-31 23:59:59.999999", "10 seconds", "1969-12-31 23:59:50", "1970-01-01 00:00:00"),
        ("1901-05-05 00:00:01", "1 day", "1901-05-05 00:00:00", "1901-05-06 00:00:00"),
        ("2024-02-29 12:00:00", "1 day", "2024-02-29 00:00:00", "2024-03-01 00:00:00"),
        (
            "2026-01-01 00:00:00.000007",
            "1 microsecond",
            "2026-01-01 00:00:00.000007",
            "2026-01-01 00:00:00.000008",
        ),
        ("1970-12-31 23:00:00", "365 days", "1970-01-01 00:00:00", "1971-01-01 00:00:00"),
        (
            "2026-01-01 00:00:00",
            "1 minute 30 seconds",
            "2026-01-01 00:00:00",
            "2026-01-01 00:01:30",
        ),
    ],
)
def test_windows_are_aligned_to_1970(
    spark: SparkSession, time: str, size: str, start: str, end: str
) -> None:
    clicks = spark.createDataFrame([(utc(time),)], "event_time timestamp")
    row = (
        tumbling(clicks, size, aggs=N)
        .select(F.unix_micros("window.start"), F.unix_micros("window.end"))
        .collect()[0]
    )
    assert list(row) == [round(utc(bound).timestamp() * 1_000_000) for bound in (start, end)]


@pytest.mark.parametrize("offset", ["15 minutes", "-45 minutes", timedelta(minutes=135)])
def test_an_offset_of_any_sign_shifts_the_alignment(
    spark: SparkSession, offset: str | timedelta
) -> None:
    clicks = spark.createDataFrame([(utc("2026-01-01 10:10:00"),)], "event_time timestamp")
    row = (
        tumbling(clicks, "1 hour", aggs=N, offset=offset)
        .select(F.unix_seconds("window.start"))
        .collect()[0]
    )
    assert row[0] == utc("2026-01-01 09:15:00").timestamp()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_the_session_time_zone_has_no_effect_at_clock_changes(
    spark: SparkSession, zone: str
) -> None:
    # Clocks change in New York at 2026-03-08 07:00 UTC.
    clicks = spark.range(0, 8 * 3600, 600).select(
        F.timestamp_seconds(F.lit(int(utc("2026-03-08 04:00:00").timestamp())) + F.col("id")).alias(
            "event_time"
        )
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        hours = (
            tumbling(clicks, "1 hour", aggs=N)
            .select(F.unix_seconds("window.start").alias("start"), "n")
            .collect()
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    first = int(utc("2026-03-08 04:00:00").timestamp())
    assert sorted((row.start, row.n) for row in hours) == [
        (first + 3600 * hour, 6) for hour in range(8)
    ]


def test_a_null_time_is_in_no_window_and_a_null_key_is_a_separate_key(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(
        [(None, "a"), (utc("2026-01-01 10:00:00"), None), (utc("2026-01-01 10:00:01"), None)],
        "event_time timestamp, page string",
    )
    assert [
        (row.page, row.n) for row in tumbling(clicks, "1 minute", by="page", aggs=N).collect()
    ] == [(None, 2)]


def test_spark_aggregates_and_special_characters_in_names_are_allowed(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(
        [(utc("2026-01-01 10:00:00"), "p", 1.0), (utc("2026-01-01 10:00:01"), "p", 3.0)],
        "event_time timestamp, `page.path` string, `a ``b` double",
    )
    spread = F.stddev_pop(F.col("`a ``b`"))
    result = tumbling(
        clicks, "1 minute", by=["page.path"], aggs={"sp read": spread, "m.ean": avg("a `b")}
    )
    assert result.columns == ["window", "page.path", "sp read", "m.ean"]
    assert [tuple(row)[1:] for row in result.collect()] == [("p", 1.0, 2.0)]


@pytest.mark.parametrize(("edge", "counts"), [("start", [2, 2]), ("end", [1, 3])])
def test_sessions_are_counted_by_the_local_day_of_their_start_or_end(
    spark: SparkSession, edge: str, counts: list[int]
) -> None:
    # In Berlin the day of the clock change begins at 23:00 UTC and has 23 hours.
    times = [
        ("2026-03-28T22:30:00Z", "a"),
        ("2026-03-28T22:55:00Z", "a"),
        ("2026-03-28T23:05:00Z", "b"),
        ("2026-03-29T21:30:00Z", "b"),
    ]
    rows = spark.createDataFrame(times, "at STRING, user STRING")
    events = rows.selectExpr("to_timestamp(at) AS event_time", "user")
    sessions = session(events, "15 minutes", by="user", aggs={"n": count()})
    days = tumbling(
        sessions, "1 day", zone="Europe/Berlin", time=f"window.{edge}", aggs={"n": count()}
    )
    starts = ["2026-03-27 23:00:00", "2026-03-28 23:00:00"]
    by_day = days.selectExpr("CAST(to_utc_timestamp(window.start, 'UTC') AS STRING) AS day", "n")
    found = sorted((row["day"], row["n"]) for row in by_day.collect())
    assert found == list(zip(starts, counts, strict=True))
