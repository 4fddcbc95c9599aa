"""Session windows: fixed gaps, a gap for each event, and the maximum duration."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.window_frames import batch, relative_windows
from tests.support.window_oracle import SECOND, Event
from tests.support.window_strategies import BASE
from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.windows import session

N = {"n": count()}


def clicks(*seconds: float) -> list[Event]:
    return [Event(BASE + round(second * SECOND), "a", None) for second in seconds]


def test_two_events_exactly_one_gap_apart_are_in_one_session(spark: SparkSession) -> None:
    # 0 . . . . 5 . . . . 10 | 15.000001
    sessions = session(
        batch(spark, clicks(0, 5, 10, 15.000001)), "5 seconds", by="key", aggs=N
    ).collect()
    assert relative_windows(sessions, "n") == [(0.0, 15.0, 3), (15.000001, 20.000001, 1)]


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("double", ["0.0D", "-0.0D", "0.0D"]),
        ("map<string, int>", ["map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('a', 1, 'b', 2)"]),
        ("string", ["null", "null", "null"]),
    ],
)
def test_events_with_equal_keys_of_different_bytes_are_in_one_session(
    spark: SparkSession, data_type: str, values: list[str]
) -> None:
    rows = ", ".join(f"({BASE // SECOND + at}, {value})" for at, value in enumerate(values))
    events = spark.sql(
        f"SELECT timestamp_seconds(at) event_time, CAST(key AS {data_type}) key "
        f"FROM VALUES {rows} AS t(at, key)"
    )
    sessions = session(events, "5 seconds", by="key", aggs=N).collect()
    assert relative_windows(sessions, "n") == [(0.0, 7.0, 3)]


def test_a_filter_on_sessions_does_not_remove_events(spark: SparkSession) -> None:
    # 0 - 5 - 10 --- 15: with pushdown Spark would remove events whose own gap ends before 12
    sessions = session(batch(spark, clicks(0, 5, 10)), "5 seconds", by="key", aggs=N)
    filtered = sessions.where(
        F.col("window.end") >= F.timestamp_seconds(F.lit(BASE // SECOND + 12))
    )
    assert relative_windows(filtered.collect(), "n") == [(0.0, 15.0, 3)]


def test_a_session_ends_at_the_maximum_of_time_plus_gap(spark: SparkSession) -> None:
    # 0 ----------------------- 20
    #   1 - 2     8 - 9   19 - 20     21 - 22
    events = spark.createDataFrame(
        [(BASE // SECOND + at, gap) for at, gap in [(0, 20), (1, 1), (8, 1), (19, 1), (21, 1)]],
        "at long, gap int",
    ).withColumn("event_time", F.timestamp_seconds("at"))
    sessions = session(events, F.make_dt_interval(secs=F.col("gap")), aggs=N).collect()
    assert relative_windows(sessions, "n") == [(0.0, 20.0, 4), (21.0, 22.0, 1)]


@pytest.mark.parametrize("gap", [None, 0, -5])
def test_an_event_without_a_positive_gap_is_in_a_session(
    spark: SparkSession, gap: int | None
) -> None:
    events = spark.createDataFrame([(BASE // SECOND, gap)], "at long, gap int").withColumn(
        "event_time", F.timestamp_seconds("at")
    )
    sessions = session(events, F.make_dt_interval(secs=F.col("gap")), aggs=N).collect()
    assert relative_windows(sessions, "n") == [(0.0, 0.000001, 1)]


def test_sessions_are_split_at_multiples_of_max_duration(
    spark: SparkSession,
) -> None:
    # an event each second across the start of a minute
    edge = 60 - BASE // SECOND % 60
    sessions = session(
        batch(spark, clicks(*range(edge - 3, edge + 3))),
        "5 seconds",
        by="key",
        aggs=N,
        max_duration="1 minute",
    )
    assert relative_windows(sessions.collect(), "n") == [
        (edge - 3.0, edge + 4.0, 3),
        (float(edge), edge + 7.0, 3),
    ]


def test_a_gap_column_that_is_not_an_interval_raises_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ColumnTypeError, match="make_dt_interval"):
        session(batch(spark, clicks(0)), F.lit("5 minutes"), aggs=N)
    with pytest.raises(ValueError, match="nowhere"):
        session(batch(spark, clicks(0)), F.col("nowhere"), aggs=N)


@pytest.mark.parametrize(
    "data_type", ["string collate UTF8_LCASE", "array<string collate UNICODE_CI>"]
)
def test_keys_with_a_collation_raise_at_the_call(spark: SparkSession, data_type: str) -> None:
    # Spark would return separate sessions for the equal keys 'Ada' and 'ADA'.
    text = "'Ada'" if data_type.startswith("string") else "array('Ada')"
    events = spark.sql(f"SELECT timestamp_seconds(1) event_time, CAST({text} AS {data_type}) key")
    message = re.escape(f"invalid by: column 'key' has type {data_type}")
    with pytest.raises(ColumnTypeError, match=message):
        session(events, "5 seconds", by="key", aggs=N)


def test_a_max_duration_shorter_than_the_gap_raises(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError, match="invalid max_duration"):
        session(batch(spark, clicks(0)), "5 minutes", aggs=N, max_duration="1 minute")
