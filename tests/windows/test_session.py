"""Session windows: the gap, gaps of each event, and the longest stretch."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.windows import session

from .frames import batch, windows
from .oracle import SECOND, Event
from .strategies import BASE

N = {"n": count()}


def clicks(*seconds: float) -> list[Event]:
    return [Event(BASE + round(second * SECOND), "a", None) for second in seconds]


def test_two_events_exactly_one_gap_apart_are_in_one_session(spark: SparkSession) -> None:
    # 0 . . . . 5 . . . . 10 | 15.000001
    found = session(
        batch(spark, clicks(0, 5, 10, 15.000001)), "5 seconds", by="key", aggs=N
    ).collect()
    assert windows(found, "n") == [(0.0, 15.0, 3), (15.000001, 20.000001, 1)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", ["0.0D", "-0.0D", "0.0D"]),
        ("map<string, int>", ["map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('a', 1, 'b', 2)"]),
        ("string", ["null", "null", "null"]),
    ],
)
def test_events_whose_keys_are_equal_are_in_one_session_whatever_their_bytes(
    spark: SparkSession, kind: str, values: list[str]
) -> None:
    rows = ", ".join(f"({BASE // SECOND + at}, {value})" for at, value in enumerate(values))
    events = spark.sql(
        f"SELECT timestamp_seconds(at) event_time, CAST(key AS {kind}) key "
        f"FROM VALUES {rows} AS t(at, key)"
    )
    found = session(events, "5 seconds", by="key", aggs=N).collect()
    assert windows(found, "n") == [(0.0, 7.0, 3)]


def test_a_filter_of_sessions_takes_no_event_from_them(spark: SparkSession) -> None:
    # 0 - 5 - 10 --- 15: Spark by itself would leave out the events whose own gap ends before 12
    found = session(batch(spark, clicks(0, 5, 10)), "5 seconds", by="key", aggs=N)
    late_ones = found.where(F.col("window.end") >= F.timestamp_seconds(F.lit(BASE // SECOND + 12)))
    assert windows(late_ones.collect(), "n") == [(0.0, 15.0, 3)]


def test_a_session_lasts_as_long_as_the_farthest_reach_of_its_events(spark: SparkSession) -> None:
    # 0 ----------------------- 20
    #   1 - 2     8 - 9   19 - 20     21 - 22
    events = spark.createDataFrame(
        [(BASE // SECOND + at, reach) for at, reach in [(0, 20), (1, 1), (8, 1), (19, 1), (21, 1)]],
        "at long, reach int",
    ).withColumn("event_time", F.timestamp_seconds("at"))
    found = session(events, F.make_dt_interval(secs=F.col("reach")), aggs=N).collect()
    assert windows(found, "n") == [(0.0, 20.0, 4), (21.0, 22.0, 1)]


@pytest.mark.parametrize("reach", [None, 0, -5])
def test_an_event_without_a_positive_gap_is_not_lost(
    spark: SparkSession, reach: int | None
) -> None:
    events = spark.createDataFrame([(BASE // SECOND, reach)], "at long, reach int").withColumn(
        "event_time", F.timestamp_seconds("at")
    )
    found = session(events, F.make_dt_interval(secs=F.col("reach")), aggs=N).collect()
    assert windows(found, "n") == [(0.0, 0.000001, 1)]


def test_no_session_holds_events_on_both_sides_of_a_multiple_of_the_longest(
    spark: SparkSession,
) -> None:
    # events each second over a minute's edge
    edge = 60 - BASE // SECOND % 60
    found = session(
        batch(spark, clicks(*range(edge - 3, edge + 3))),
        "5 seconds",
        by="key",
        aggs=N,
        longest="1 minute",
    )
    assert windows(found.collect(), "n") == [
        (edge - 3.0, edge + 4.0, 3),
        (float(edge), edge + 7.0, 3),
    ]


def test_a_gap_that_is_no_interval_is_refused_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ColumnTypeError, match="make_dt_interval"):
        session(batch(spark, clicks(0)), F.lit("5 minutes"), aggs=N)
    with pytest.raises(ValueError, match="nowhere"):
        session(batch(spark, clicks(0)), F.col("nowhere"), aggs=N)


@pytest.mark.parametrize("kind", ["string collate UTF8_LCASE", "array<string collate UNICODE_CI>"])
def test_keys_with_a_collation_are_refused_at_the_call(spark: SparkSession, kind: str) -> None:
    # Spark gives 'Ada' and 'ADA', which are equal then, a session each.
    text = "'Ada'" if kind.startswith("string") else "array('Ada')"
    events = spark.sql(f"SELECT timestamp_seconds(1) event_time, CAST({text} AS {kind}) key")
    refused = re.escape(f"by names 'key', of type {kind}.")
    with pytest.raises(ColumnTypeError, match=refused):
        session(events, "5 seconds", by="key", aggs=N)


def test_a_longest_shorter_than_the_gap_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError, match="longest"):
        session(batch(spark, clicks(0)), "5 minutes", aggs=N, longest="1 minute")
