"""Interval joins: bounds, nulls, join types, columns, late rows, and invalid arguments."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.interval_oracle import (
    BASE,
    SCHEMA,
    SECOND,
    SPAN,
    WATERMARK_DELAY,
    Arrival,
    Bounds,
    Event,
    JoinedIds,
    expected_join,
    frame,
    instant,
    join_by_types,
    joined_ids,
    random_arrival,
)
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError
from tidegate.joins import IntervalJoin, stream_stream
from tidegate.joins.interval_join import IntervalJoinType, JoinEmit
from tidegate.testing import StreamDriver

pytestmark = pytest.mark.usefixtures("single_partition")

MINUTE = Bounds(0, 60 * SECOND)


def rows_in_time(arrival: Arrival, emit: JoinEmit) -> list[Event]:
    """Return the rows that are not late by the watermark before their batch."""
    width = 1 if emit == "early" else slice_length(arrival.bounds)
    watermark = 0
    in_time = list[Event]()
    for batch in arrival.batches:
        in_time += [
            event for event in batch if (BASE + event.micros) // width * width + width > watermark
        ]
        max_time = max(BASE + event.micros for event in batch)
        watermark = max(watermark, (max_time - WATERMARK_DELAY) // 1000 * 1000)
    return in_time


def slice_length(drawn: Bounds) -> int:
    return -(-max(abs(drawn.before), abs(drawn.after), SECOND) // 8)


@pytest.mark.parametrize("emit", ["early", "final"])
@pytest.mark.parametrize(
    "join_types", [("inner", "left", "semi"), ("right", "full", "anti")], ids="-".join
)
@pytest.mark.slow
def test_stream_and_batch_equal_the_oracle_on_the_rows_that_are_not_late(
    spark: SparkSession, join_types: tuple[IntervalJoinType, ...], emit: JoinEmit
) -> None:
    seed = Random().randrange(2**32)
    print(f"random_arrival({seed})")
    arrival = random_arrival(seed)
    in_time = rows_in_time(arrival, emit)
    assert 0 < len(in_time) < sum(map(len, arrival.batches))
    expected = expected_join(in_time, arrival.bounds, join_types)
    assert (
        joined_ids(join_by_types(frame(spark, in_time), arrival.bounds, join_types).collect())
        == expected
    )
    assert run_stream(spark, arrival, join_types, emit) == expected


@pytest.mark.parametrize(
    ("emit", "ends"),
    [
        ("early", [1, 2, 125_000, 125_001, SECOND + 1]),
        ("final", [125_000, 125_000, 125_000, 250_000, SECOND + 125_000]),
    ],
)
def test_a_row_is_late_once_the_watermark_passes_it_or_its_slice(
    spark: SparkSession, emit: JoinEmit, ends: list[int]
) -> None:
    join = IntervalJoin("key", within=Bounds(SECOND, 0).within, how="inner", emit=emit)
    events = [Event("left", micros, "a", 0) for micros in (0, 1, 124_999, 125_000, SECOND)]
    result = frame(spark, events).select(F.unix_micros(join.late_at(F.col("event_time"))))
    assert [row[0] - BASE for row in result.collect()] == ends


def run_stream(
    spark: SparkSession, arrival: Arrival, join_types: tuple[IntervalJoinType, ...], emit: JoinEmit
) -> Counter[JoinedIds]:
    """Return the results of the arrival as a stream with restarts."""
    with StreamDriver(
        spark,
        SCHEMA,
        lambda events: join_by_types(events, arrival.bounds, join_types, emit),
        watermark_delay=timedelta(microseconds=WATERMARK_DELAY),
    ) as stream:
        for number, batch in enumerate(arrival.batches):
            stream.feed(frame(spark, batch))
            if number == arrival.restart:
                stream.restart()
        stream.advance_to(instant(10 * SPAN))
        return joined_ids(stream.results().collect())


@pytest.mark.slow
def test_with_final_rows_are_emitted_once_when_no_row_can_match_them(
    spark: SparkSession,
) -> None:
    # search  a 0            b 5
    # click      a 60 (arrives before its search)     a 60.000001 is outside the bounds
    click, search = Event("right", 60 * SECOND, "a", 1), Event("left", 0, "a", 0)
    out_of_bounds, unmatched = (
        Event("right", 60 * SECOND + 1, "a", 2),
        Event("left", 5 * SECOND, "b", 3),
    )
    with StreamDriver(
        spark,
        SCHEMA,
        lambda events: join_by_types(events, MINUTE, emit="final"),
        watermark_delay=timedelta(seconds=70),
    ) as stream:
        assert stream.feed(frame(spark, [click, out_of_bounds])) == []
        assert stream.feed(frame(spark, [search, unmatched])) == []
        assert stream.advance_to(instant(60 * SECOND)) == []
        stream.restart()
        assert joined_ids(stream.advance_to(instant(300 * SECOND))) == expected_join(
            [click, search, out_of_bounds, unmatched], MINUTE
        )
        assert stream.advance_to(instant(900 * SECOND)) == []


@pytest.mark.slow
def test_a_null_key_matches_nothing_and_a_row_with_a_null_time_is_dropped(
    spark: SparkSession,
) -> None:
    rows = [
        (instant(0), "a", None, 1),
        (instant(0), None, "x", 2),
        (instant(0), None, None, 3),
        (None, "a", "x", 4),
    ]
    events = spark.createDataFrame(
        [*rows, (instant(0), "a", "x", 5)], "event_time timestamp, k string, j string, id int"
    )

    def ids(how: Any) -> list[tuple[Any, ...]]:
        result = stream_stream(
            events, events, ["k", "j"], within=("0 seconds", "0 seconds"), how=how
        )
        id_columns = ["id"] if "id" in result.columns else ["id_left", "id_right"]
        return sorted((tuple(row) for row in result.select(*id_columns).collect()), key=repr)

    lefts, rights = [(one, None) for one in (1, 2, 3)], [(None, one) for one in (1, 2, 3)]
    assert ids("inner") == [(5, 5)]
    assert ids("left") == sorted([(5, 5), *lefts], key=repr)
    assert ids("right") == sorted([(5, 5), *rights], key=repr)
    assert ids("full") == sorted([(5, 5), *lefts, *rights], key=repr)
    assert ids("semi") == [(5,)]
    assert ids("anti") == [(1,), (2,), (3,)]


def test_columns_of_both_sides_have_a_suffix_and_the_result_has_event_time(
    spark: SparkSession,
) -> None:
    searches = spark.createDataFrame(
        [("s", instant(0), "q", 1), ("t", instant(9), "r", 2)],
        "k string, at timestamp, `a.b` string, n int",
    )
    clicks = spark.createDataFrame(
        [(7, "s", instant(SECOND), "c"), (8, "u", instant(4), "d")],
        "N int, k string, event_time timestamp, `x``y` string",
    )
    result = stream_stream(
        searches,
        clicks,
        "k",
        within=("1 second", "1 minute"),
        how="full",
        time=("at", "event_time"),
        suffixes=("", "_click"),
    ).orderBy("k")
    schema = (
        "k string, event_time timestamp, at timestamp, `a.b` string, n int, N_click int, "
        "event_time_click timestamp, "
        "`x``y` string"
    )
    expected = [
        ("s", instant(SECOND), instant(0), "q", 1, 7, instant(SECOND), "c"),
        ("t", instant(60 * SECOND + 9), instant(9), "r", 2, None, None, None),
        ("u", instant(SECOND + 4), None, None, None, 8, instant(4), "d"),
    ]
    assert_df_equality(result, spark.createDataFrame(expected, schema), ignore_nullable=True)
    in_time = stream_stream(
        searches,
        clicks,
        "k",
        within=("0 seconds", "1 minute"),
        how="semi",
        time=("at", "event_time"),
    )
    assert_df_equality(in_time, searches.where("k = 's'"), ignore_nullable=True)


def test_a_key_named_event_time_raises(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "event_time timestamp, ts timestamp")
    within = ("1 second", "1 second")
    with pytest.raises(ColumnError, match="invalid on: 'event_time'"):
        stream_stream(rows, rows, "event_time", within=within, how="inner", time="ts")


def test_columns_of_any_type_are_unchanged(spark: SparkSession) -> None:
    shape = (
        "event_time timestamp, k int, m map<string, array<int>>, "
        "s struct<a: date, b: decimal(20, 3)>, z timestamp_ntz"
    )
    rows = [
        (instant(0), 1, {"x": [1, None]}, (datetime(2026, 1, 1).date(), None), None),
        (instant(5), 2, None, None, datetime(1900, 1, 1)),
    ]
    events = spark.createDataFrame(rows, shape)
    for kind in ("semi", "anti"):
        matching = events.where("k = 1") if kind == "semi" else events.limit(0)
        in_time = stream_stream(events, matching, "k", within=("0 seconds", "0 seconds"), how=kind)
        assert_df_equality(
            in_time.orderBy("event_time"), events.where("k = 1" if kind == "semi" else "true")
        )


@pytest.mark.slow
def test_a_stream_joins_itself_and_equal_keys_multiply(spark: SparkSession) -> None:
    def pairs(rows: DataFrame) -> DataFrame:
        # Observed below the join, like the inputs of a job.
        events = rows.observe("counted", F.count(F.lit(1)).alias("rows"))
        watermarked_rows = stream_stream(
            events, events, "key", within=("0 seconds", "2 seconds"), how="inner"
        )
        return (
            watermarked_rows.groupBy("key").count() if not events.isStreaming else watermarked_rows
        )

    events = [Event("left", at * SECOND, key, at) for at in range(4) for key in ("a", "b")] * 3
    expected = expected_join(
        events + [event._replace(side="right") for event in events],
        Bounds(0, 2 * SECOND),
        ["inner"],
    )
    assert sum(row["count"] for row in pairs(frame(spark, events)).collect()) == expected.total()
    with StreamDriver(spark, SCHEMA, pairs, watermark_delay="1 second") as stream:
        rows = stream.feed(frame(spark, events))
        assert Counter(("inner", row.id_left, row.id_right) for row in rows) == expected
        assert stream.advance_to(instant(100 * SECOND)) == []


def rate_stream(spark: SparkSession) -> DataFrame:
    rate = (
        spark.readStream.format("rate")
        .load()
        .select(F.col("timestamp").alias("event_time"), "value")
    )
    return rate.withWatermark("event_time", "1 second")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"how": "outer"}, ArgumentError, "'full'"),
        ({"within": ("1 second", "-2 seconds")}, ArgumentError, "is empty"),
        ({"within": ("1 second",)}, ColumnTypeError, "two durations"),
        ({"within": "1 second"}, ColumnTypeError, "two durations"),
        ({"within": ("1 second", "1 month")}, ArgumentError, "no fixed length"),
        ({"on": []}, ArgumentError, "no columns"),
        ({"on": "nowhere"}, ColumnError, "nowhere"),
        ({"on": "number"}, ColumnTypeError, "double"),
        ({"on": "mixed"}, ColumnTypeError, "int in left and bigint in right"),
        ({"time": "key"}, ColumnTypeError, "timestamp"),
        ({"time": ("event_time", "missing")}, ColumnError, r"time \(right\): no column"),
        ({"suffixes": ("", "")}, ColumnError, "suffixes"),
    ],
)
def test_invalid_arguments_raise_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    shape = "event_time timestamp, key string, number double, mixed"
    left, right = (spark.createDataFrame([], f"{shape} {kind}") for kind in ("int", "bigint"))
    arguments: dict[str, Any] = {
        "on": "key",
        "within": ("0 seconds", "1 minute"),
        "how": "inner",
        **options,
    }
    with pytest.raises(error, match=message):
        stream_stream(left, right, arguments.pop("on"), **arguments)


def test_a_join_with_unbounded_state_raises(spark: SparkSession) -> None:
    watermarked_rows = rate_stream(spark)
    unbounded = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    for left, right, name in (
        (watermarked_rows, unbounded, "right"),
        (unbounded, watermarked_rows, "left"),
    ):
        with pytest.raises(WatermarkError, match=f"invalid {name}: no watermark"):
            stream_stream(left, right, "value", within=("0 seconds", "1 minute"), how="inner")
    batch = spark.createDataFrame([], "event_time timestamp, value bigint")
    with pytest.raises(ArgumentError, match="left is a stream and right is a batch"):
        stream_stream(
            watermarked_rows, batch, "value", within=("0 seconds", "1 minute"), how="left"
        )
