"""Stream-stream joins: ranges, nulls, kinds, columns, late rows, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError
from tidegate.joins import IntervalJoin, stream_stream
from tidegate.joins.stream_stream import How, JoinEmission
from tidegate.testing import StreamDriver

from .intervals import (
    BASE,
    LATENESS,
    SCHEMA,
    SECOND,
    SPAN,
    Answer,
    Arrival,
    Bounds,
    Event,
    arrived,
    every_kind,
    frame,
    instant,
    joined,
)

MINUTE = Bounds(0, 60 * SECOND)


@pytest.fixture(autouse=True, scope="module")
def one_task(spark: SparkSession) -> Iterator[None]:
    """Several joins in one query keep many states; one partition of each is enough here."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def counted(rows: list[Row]) -> Counter[Answer]:
    return Counter((row.kind, row.left, row.right) for row in rows)


def taken(arrival: Arrival, emission: JoinEmission) -> list[Event]:
    """Return the rows that are not late, by the watermark that the batches before their own have
    left."""
    width = 1 if emission == "early" else slice_of(arrival.bounds)
    watermark = 0
    kept = list[Event]()
    for batch in arrival.batches:
        kept += [
            event for event in batch if (BASE + event.micros) // width * width + width > watermark
        ]
        newest = max(BASE + event.micros for event in batch)
        watermark = max(watermark, (newest - LATENESS) // 1000 * 1000)
    return kept


def slice_of(drawn: Bounds) -> int:
    return -(-max(abs(drawn.before), abs(drawn.after), SECOND) // 8)


@pytest.mark.parametrize("emission", ["early", "final"])
@pytest.mark.parametrize(
    "kinds", [("inner", "left", "semi"), ("right", "full", "anti")], ids="-".join
)
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree_for_every_kind_on_the_rows_that_are_not_late(
    spark: SparkSession, kinds: tuple[How, ...], emission: JoinEmission
) -> None:
    seed = Random().randrange(2**32)
    print(f"arrived({seed})")
    arrival = arrived(seed)
    kept = taken(arrival, emission)
    assert 0 < len(kept) < sum(map(len, arrival.batches))
    expected = joined(kept, arrival.bounds, kinds)
    assert counted(every_kind(frame(spark, kept), arrival.bounds, kinds).collect()) == expected
    assert streamed(spark, arrival, kinds, emission) == expected


@pytest.mark.parametrize(
    ("emission", "ends"),
    [
        ("early", [1, 2, 125_000, 125_001, SECOND + 1]),
        ("final", [125_000, 125_000, 125_000, 250_000, SECOND + 125_000]),
    ],
)
def test_a_row_is_late_once_the_watermark_has_passed_it_or_its_slice(
    spark: SparkSession, emission: JoinEmission, ends: list[int]
) -> None:
    join = IntervalJoin("key", within=Bounds(SECOND, 0).within, how="inner", emission=emission)
    events = [Event("left", micros, "a", 0) for micros in (0, 1, 124_999, 125_000, SECOND)]
    found = frame(spark, events).select(F.unix_micros(join.late_at(F.col("event_time"))))
    assert [row[0] - BASE for row in found.collect()] == ends


def streamed(
    spark: SparkSession, arrival: Arrival, kinds: tuple[How, ...], emission: JoinEmission
) -> Counter[Answer]:
    """Run the arrival as a stream, restarts included, to its end, and give what came out."""
    with StreamDriver(
        spark,
        SCHEMA,
        lambda events: every_kind(events, arrival.bounds, kinds, emission),
        lateness=timedelta(microseconds=LATENESS),
    ) as stream:
        for number, batch in enumerate(arrival.batches):
            stream.feed(frame(spark, batch))
            if number == arrival.restart:
                stream.restart()
        stream.advance_to(instant(10 * SPAN))
        return counted(stream.results().collect())


@pytest.mark.slow
def test_with_final_emission_rows_come_out_once_when_nothing_can_match_any_more(
    spark: SparkSession,
) -> None:
    # search  a 0            b 5
    # click      a 60 (before its search)     a 60.000001 is too late
    click, search = Event("right", 60 * SECOND, "a", 1), Event("left", 0, "a", 0)
    beyond, lonely = Event("right", 60 * SECOND + 1, "a", 2), Event("left", 5 * SECOND, "b", 3)
    with StreamDriver(
        spark,
        SCHEMA,
        lambda events: every_kind(events, MINUTE, emission="final"),
        lateness=timedelta(seconds=70),
    ) as stream:
        assert stream.feed(frame(spark, [click, beyond])) == []
        assert stream.feed(frame(spark, [search, lonely])) == []
        assert stream.advance_to(instant(60 * SECOND)) == []
        stream.restart()
        assert counted(stream.advance_to(instant(300 * SECOND))) == joined(
            [click, search, beyond, lonely], MINUTE
        )
        assert stream.advance_to(instant(900 * SECOND)) == []


@pytest.mark.slow
def test_a_null_key_matches_nothing_in_any_kind_and_a_null_time_is_left_out(
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
    known = {1: None, 2: None, 3: None}

    def ids(kind: Any) -> list[tuple[Any, ...]]:
        result = stream_stream(
            events, events, ["k", "j"], within=("0 seconds", "0 seconds"), how=kind
        )
        wanted = ["id"] if "id" in result.columns else ["id_left", "id_right"]
        return sorted((tuple(row) for row in result.select(*wanted).collect()), key=repr)

    lefts, rights = [(one, None) for one in known], [(None, one) for one in known]
    assert ids("inner") == [(5, 5)]
    assert ids("left") == sorted([(5, 5), *lefts], key=repr)
    assert ids("right") == sorted([(5, 5), *rights], key=repr)
    assert ids("full") == sorted([(5, 5), *lefts, *rights], key=repr)
    assert ids("semi") == [(5,)]
    assert ids("anti") == [(1,), (2,), (3,)]


def test_columns_of_both_sides_bear_a_suffix_and_the_result_has_a_time_of_its_own(
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
    found = stream_stream(
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
    assert_df_equality(found, spark.createDataFrame(expected, schema), ignore_nullable=True)
    kept = stream_stream(
        searches,
        clicks,
        "k",
        within=("0 seconds", "1 minute"),
        how="semi",
        time=("at", "event_time"),
    )
    assert_df_equality(kept, searches.where("k = 's'"), ignore_nullable=True)


def test_a_key_called_as_the_result_s_time_is_refused(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "event_time timestamp, ts timestamp")
    within = ("1 second", "1 second")
    with pytest.raises(ColumnError, match="on names 'event_time'"):
        stream_stream(rows, rows, "event_time", within=within, how="inner", time="ts")


def test_rows_of_any_type_go_through_whole(spark: SparkSession) -> None:
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
        met = events.where("k = 1") if kind == "semi" else events.limit(0)
        kept = stream_stream(events, met, "k", within=("0 seconds", "0 seconds"), how=kind)
        assert_df_equality(
            kept.orderBy("event_time"), events.where("k = 1" if kind == "semi" else "true")
        )


@pytest.mark.slow
def test_a_stream_joins_itself_and_many_equal_keys_multiply(spark: SparkSession) -> None:
    def pairs(given: DataFrame) -> DataFrame:
        # Counted below the join, as a job's inputs are.
        events = given.observe("counted", F.count(F.lit(1)).alias("rows"))
        whole = stream_stream(events, events, "key", within=("0 seconds", "2 seconds"), how="inner")
        return whole.groupBy("key").count() if not events.isStreaming else whole

    events = [Event("left", at * SECOND, key, at) for at in range(4) for key in ("a", "b")] * 3
    expected = joined(
        events + [event._replace(side="right") for event in events],
        Bounds(0, 2 * SECOND),
        ["inner"],
    )
    assert sum(row["count"] for row in pairs(frame(spark, events)).collect()) == expected.total()
    with StreamDriver(spark, SCHEMA, pairs, lateness="1 second") as stream:
        rows = stream.feed(frame(spark, events))
        assert Counter(("inner", row.id_left, row.id_right) for row in rows) == expected
        assert stream.advance_to(instant(100 * SECOND)) == []


def watermarked(spark: SparkSession) -> DataFrame:
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
        ({"within": ("1 second", "-2 seconds")}, ArgumentError, "nothing could match"),
        ({"within": ("1 second",)}, ColumnTypeError, "two durations"),
        ({"within": "1 second"}, ColumnTypeError, "two durations"),
        ({"within": ("1 second", "1 month")}, ArgumentError, "no fixed length"),
        ({"on": []}, ArgumentError, "no column"),
        ({"on": "nowhere"}, ColumnError, "nowhere"),
        ({"on": "number"}, ColumnTypeError, "double"),
        ({"on": "mixed"}, ColumnTypeError, "int in left and bigint in right"),
        ({"time": "key"}, ColumnTypeError, "timestamp"),
        ({"time": ("event_time", "gone")}, ColumnError, "in right"),
        ({"suffixes": ("", "")}, ColumnError, "suffixes"),
    ],
)
def test_what_can_not_be_joined_is_refused_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    shape = "event_time timestamp, key string, number double, mixed"
    left, right = (spark.createDataFrame([], f"{shape} {kind}") for kind in ("int", "bigint"))
    given: dict[str, Any] = {
        "on": "key",
        "within": ("0 seconds", "1 minute"),
        "how": "inner",
        **options,
    }
    with pytest.raises(error, match=message):
        stream_stream(left, right, given.pop("on"), **given)


def test_a_join_whose_state_would_grow_without_bound_is_refused(spark: SparkSession) -> None:
    whole = watermarked(spark)
    bare = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    for left, right, name in ((whole, bare, "right"), (bare, whole, "left")):
        with pytest.raises(WatermarkError, match=f"the {name} stream has no watermark"):
            stream_stream(left, right, "value", within=("0 seconds", "1 minute"), how="inner")
    batch = spark.createDataFrame([], "event_time timestamp, value bigint")
    with pytest.raises(ArgumentError, match="left is a stream and right a batch"):
        stream_stream(whole, batch, "value", within=("0 seconds", "1 minute"), how="left")
