"""Tumbling windows: bounds, alignment, keys, and lengths from a microsecond to a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, mean
from tidegate.windows import tumbling

N = {"n": count()}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_an_event_on_a_boundary_belongs_to_the_window_that_begins_there(
    spark: SparkSession,
) -> None:
    # 10:03:00 |x . . . . x| 10:04:00 |x ...
    clicks = spark.createDataFrame(
        [
            (at("2026-01-01 10:03:00"), 10),
            (at("2026-01-01 10:03:59.999999"), 30),
            (at("2026-01-01 10:04:00"), 5),
        ],
        "event_time timestamp, ms int",
    )
    found = tumbling(clicks, "1 minute", aggs={"n": count(), "ms": mean("ms")})
    expected = spark.createDataFrame(
        [
            ((at("2026-01-01 10:03:00"), at("2026-01-01 10:04:00")), 2, 20.0),
            ((at("2026-01-01 10:04:00"), at("2026-01-01 10:05:00")), 1, 5.0),
        ],
        "window struct<start timestamp, end timestamp>, n bigint, ms double",
    )
    assert_df_equality(
        found, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
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
def test_windows_stand_on_one_grid_from_1970(
    spark: SparkSession, time: str, size: str, start: str, end: str
) -> None:
    clicks = spark.createDataFrame([(at(time),)], "event_time timestamp")
    row = (
        tumbling(clicks, size, aggs=N)
        .select(F.unix_micros("window.start"), F.unix_micros("window.end"))
        .collect()[0]
    )
    assert list(row) == [round(at(bound).timestamp() * 1_000_000) for bound in (start, end)]


@pytest.mark.parametrize("offset", ["15 minutes", "-45 minutes", timedelta(minutes=135)])
def test_an_offset_shifts_the_grid_whatever_its_sign(
    spark: SparkSession, offset: str | timedelta
) -> None:
    clicks = spark.createDataFrame([(at("2026-01-01 10:10:00"),)], "event_time timestamp")
    row = (
        tumbling(clicks, "1 hour", aggs=N, offset=offset)
        .select(F.unix_seconds("window.start"))
        .collect()[0]
    )
    assert row[0] == at("2026-01-01 09:15:00").timestamp()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_the_session_time_zone_changes_nothing_even_where_clocks_change(
    spark: SparkSession, zone: str
) -> None:
    # 2026-03-08 07:00 UTC is the hour in which New York's clocks go forward.
    clicks = spark.range(0, 8 * 3600, 600).select(
        F.timestamp_seconds(F.lit(int(at("2026-03-08 04:00:00").timestamp())) + F.col("id")).alias(
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
    first = int(at("2026-03-08 04:00:00").timestamp())
    assert sorted((row.start, row.n) for row in hours) == [
        (first + 3600 * hour, 6) for hour in range(8)
    ]


def test_a_null_time_is_in_no_window_and_a_null_key_is_a_key(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(
        [(None, "a"), (at("2026-01-01 10:00:00"), None), (at("2026-01-01 10:00:01"), None)],
        "event_time timestamp, page string",
    )
    assert [
        (row.page, row.n) for row in tumbling(clicks, "1 minute", by="page", aggs=N).collect()
    ] == [(None, 2)]


def test_bare_spark_aggregates_and_odd_names_are_taken(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(
        [(at("2026-01-01 10:00:00"), "p", 1.0), (at("2026-01-01 10:00:01"), "p", 3.0)],
        "event_time timestamp, `page.path` string, `a ``b` double",
    )
    spread = F.stddev_pop(F.col("`a ``b`"))
    found = tumbling(
        clicks, "1 minute", by=["page.path"], aggs={"sp read": spread, "m.ean": mean("a `b")}
    )
    assert found.columns == ["window", "page.path", "sp read", "m.ean"]
    assert [tuple(row)[1:] for row in found.collect()] == [("p", 1.0, 2.0)]
