"""Sliding windows: inclusive bounds, ties, distinct sets, additional columns, all types."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.window_frames import SCHEMA, batch, instant, relative_windows
from tests.support.window_oracle import SECOND, Event, sliding_sets
from tests.support.window_strategies import BASE, SPAN, events
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.errors import ArgumentError
from tidegate.testing import StreamDriver
from tidegate.windows import sliding


def test_events_five_minutes_apart_share_a_window_and_a_microsecond_more_do_not(
    spark: SparkSession,
) -> None:
    # 0 ---------------- 300   both ends are inclusive: 2
    #    1us ------------ 300 000 001us: 300.000001 is with 300 only
    clicks = batch(spark, [Event(BASE + m, "a", 1) for m in (0, 300 * SECOND, 300 * SECOND + 1)])
    result = relative_windows(
        sliding(clicks, "5 minutes", by="key", aggs={"n": agg.count()}).collect(), "n"
    )
    assert sorted(row[2] for row in result) == [1, 2, 2]  # type: ignore[type-var]
    assert (0.0, 300.0, 2) in result


def test_events_with_the_same_time_share_a_window_and_have_their_own_columns(
    spark: SparkSession,
) -> None:
    clicks = batch(spark, [Event(BASE, "a", 1), Event(BASE, "a", 2), Event(BASE + SECOND, "a", 3)])
    rows = sliding(
        clicks,
        "1 second",
        by="key",
        aggs={"n": agg.count(), "sum": agg.sum("value")},
        columns="value",
    ).collect()
    assert sorted((row.value, row.n, row.sum) for row in rows) == [(1, 2, 3), (2, 2, 3), (3, 3, 6)]


@pytest.mark.draws
@few()
@given(drawn=events(max_size=40), size=st.sampled_from([1, 2, 5, SECOND, 3 * SECOND, 2 * SPAN]))
def test_all_windows_are_the_distinct_sets_of_events_within_size(
    spark: SparkSession, drawn: list[Event], size: int
) -> None:
    distinct_events = list({(event.micros, event.key): event for event in drawn}.values())
    aggs = {
        "n": agg.count(),
        "low": agg.min(F.unix_micros("event_time")),
        "high": agg.max(F.unix_micros("event_time")),
    }
    rows = sliding(
        batch(spark, distinct_events), f"{size} microseconds", by="key", aggs=aggs, windows="all"
    ).collect()
    expected = sorted(
        (repr(key), len(events_in_window), events_in_window[0].micros, events_in_window[-1].micros)
        for key, events_in_window in sliding_sets(distinct_events, size)
    )
    assert sorted((repr(row.key), row.n, row.low, row.high) for row in rows) == expected
    for row in rows:
        assert row.window.end - row.window.start == timedelta(microseconds=size)


def test_aggregates_of_all_types_equal_a_range_frame_of_spark(spark: SparkSession) -> None:
    rows = [
        (
            instant(BASE + n * 700_000 % (60 * SECOND) + n),
            "ab"[n % 2],
            n,
            Decimal(n * (-1) ** n) / 8 if n % 5 else None,
            [float(n), float("nan"), float("inf"), None][0 if n % 40 else n // 40 % 4],
            str(n) if n % 3 else None,
            date(2026, 1, 1) + timedelta(days=n),
            bool(n % 2) if n % 7 else None,
        )
        for n in range(300)
    ]
    schema = (
        "event_time timestamp, key string, id int, dec decimal(20,3), num double, text string, "
        "day date, flag boolean"
    )
    data = spark.createDataFrame(rows, schema)
    reference = {
        "dec_sum": (agg.sum("dec"), F.sum("dec")),
        "dec_mean": (agg.avg("dec"), F.avg("dec")),
        "num_low": (agg.min("num"), F.min("num")),
        "num_high": (agg.max("num"), F.max("num")),
        "n": (agg.count("text"), F.count("text")),
        "text_low": (agg.min("text"), F.min("text")),
        "day_high": (agg.max("day"), F.max("day")),
        "flag_high": (agg.max("flag"), F.max("flag")),
        "first": (agg.first("text"), F.min_by("text", "event_time")),
        "last": (agg.last("num"), F.max_by("num", "event_time")),
    }
    frame = (
        Window.partitionBy("key").orderBy(F.unix_micros("event_time")).rangeBetween(-10 * SECOND, 0)
    )
    expected = data.select(
        "id", *[spark_agg.over(frame).alias(name) for name, (_, spark_agg) in reference.items()]
    )
    aggs = {name: aggregate for name, (aggregate, _) in reference.items()}
    result = sliding(data, "10 seconds", by="key", aggs=aggs, columns="id").select("id", *reference)
    as_text = {
        name: F.round(name, 3).cast("string") if name == "dec_mean" else F.col(name)
        for name in reference
    }
    left, right = (
        [
            repr(row)
            for row in df.select("id", *[c.alias(n) for n, c in as_text.items()])
            .orderBy("id")
            .collect()
        ]
        for df in (result, expected)
    )
    assert left == right


def test_a_users_sum_beyond_a_bigint_is_an_error(spark: SparkSession) -> None:
    own = agg.reduce_with(agg.Reduction(lambda time: F.col("value"), "sum"))
    data = spark.createDataFrame(
        [(instant(BASE + n), 2**62) for n in range(3)], "event_time timestamp, value bigint"
    )
    with pytest.raises(Exception, match="exceeds a bigint"):
        sliding(data, "1 second", aggs={"sum": own}).collect()


@pytest.mark.slow
def test_a_window_is_emitted_once_when_its_slice_has_closed(spark: SparkSession) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with StreamDriver(
        spark,
        SCHEMA,
        lambda e: sliding(e, "1 minute", by="key", aggs={"n": agg.count()}),
        watermark_delay="0 seconds",
    ) as stream:
        early = stream.feed([(start + timedelta(seconds=s), "a", s) for s in (0, 30, 60)])
        assert all(
            row.window.end.timestamp() <= (start + timedelta(seconds=60)).timestamp()
            for row in early
        )
        assert len(early + stream.advance_to(start + timedelta(minutes=3))) == 3
        assert stream.advance_to(start + timedelta(minutes=9)) == []


def test_sums_at_the_limits_of_a_bigint_are_exact(spark: SparkSession) -> None:
    limits = [2**63 - 1, -(2**63), 5]
    data = spark.createDataFrame(
        [(instant(BASE + 10 * SECOND * n), value) for n, value in enumerate(limits)],
        "event_time timestamp, value bigint",
    )
    result = sliding(data, "1 second", aggs={"sum": agg.sum("value")}).collect()
    assert sorted(row["sum"] for row in result) == sorted(limits)


@pytest.mark.parametrize("name", ["a.b", "with space", "tick`ed", "events", "window_of"])
def test_a_key_can_have_any_name(spark: SparkSession, name: str) -> None:
    data = spark.createDataFrame([(instant(BASE), "x")], "event_time timestamp, k string")
    result = sliding(
        data.withColumnRenamed("k", name), "1 second", by=name, aggs={"n": agg.count()}
    )
    assert result.columns == ["window", name, "n"]
    assert [tuple(row)[1:] for row in result.collect()] == [("x", 1)]


def test_an_aggregate_without_reductions_raises_at_the_call(spark: SparkSession) -> None:
    aggs: Any = {"n": F.count_distinct("value")}
    with pytest.raises(ArgumentError, match="not available in sliding windows"):
        sliding(batch(spark, [Event(BASE, "a", 1)]), "1 minute", aggs=aggs)


@pytest.mark.parametrize(
    ("aggs", "options", "message"),
    [
        ({"n": agg.count()}, {"windows": "some"}, "'each', 'all'"),
        ({"n": agg.count()}, {"windows": "all", "columns": "value"}, "a row is not an event"),
        ({"n": agg.count()}, {"columns": "n"}, "'n'"),
        ({"n": agg.count()}, {"columns": "nowhere"}, "'nowhere'"),
    ],
)
def test_invalid_options_raise_at_the_call(
    spark: SparkSession, aggs: dict[str, Aggregate], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sliding(batch(spark, [Event(BASE, "a", 1)]), "1 minute", aggs=aggs, **options)
