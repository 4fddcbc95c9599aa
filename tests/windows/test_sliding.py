"""Sliding windows: both ends inclusive, ties, every set once, kept columns, all types."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, first, largest, last, mean, smallest, total
from tidegate.errors import ArgumentError
from tidegate.testing import StreamDriver
from tidegate.windows import sliding

from ..drawing import few
from .frames import SCHEMA, batch, instant, windows
from .oracle import SECOND, Event, sliding_sets
from .strategies import BASE, SPAN, events


def test_events_five_minutes_apart_share_a_window_and_a_microsecond_more_do_not(
    spark: SparkSession,
) -> None:
    # 0 ---------------- 300   both ends belong: 2
    #    1us ------------ 300 000 001us: 300.000001 meets 300 only
    clicks = batch(spark, [Event(BASE + m, "a", 1) for m in (0, 300 * SECOND, 300 * SECOND + 1)])
    found = windows(sliding(clicks, "5 minutes", by="key", aggs={"n": count()}).collect(), "n")
    assert sorted(row[2] for row in found) == [1, 2, 2]  # type: ignore[type-var]
    assert (0.0, 300.0, 2) in found


def test_events_at_one_instant_see_each_other_and_keep_their_own_columns(
    spark: SparkSession,
) -> None:
    clicks = batch(spark, [Event(BASE, "a", 1), Event(BASE, "a", 2), Event(BASE + SECOND, "a", 3)])
    rows = sliding(
        clicks, "1 second", by="key", aggs={"n": count(), "sum": total("value")}, keep="value"
    ).collect()
    assert sorted((row.value, row.n, row.sum) for row in rows) == [(1, 2, 3), (2, 2, 3), (3, 3, 6)]


@pytest.mark.draws
@few()
@given(drawn=events(most=40), size=st.sampled_from([1, 2, 5, SECOND, 3 * SECOND, 2 * SPAN]))
def test_all_windows_are_every_distinct_set_of_near_events_once(
    spark: SparkSession, drawn: list[Event], size: int
) -> None:
    apart = list({(event.micros, event.key): event for event in drawn}.values())
    aggs = {
        "n": count(),
        "low": smallest(F.unix_micros("event_time")),
        "high": largest(F.unix_micros("event_time")),
    }
    rows = sliding(
        batch(spark, apart), f"{size} microseconds", by="key", aggs=aggs, windows="all"
    ).collect()
    expected = sorted(
        (repr(key), len(held), held[0].micros, held[-1].micros)
        for key, held in sliding_sets(apart, size)
    )
    assert sorted((repr(row.key), row.n, row.low, row.high) for row in rows) == expected
    for row in rows:
        assert row.window.end - row.window.start == timedelta(microseconds=size)


def test_every_type_rolls_as_spark_s_own_range_frame_does(spark: SparkSession) -> None:
    # Decimal, double with NaN, text, dates, booleans, nulls, over a range frame as the reference.
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
        "dec_sum": (total("dec"), F.sum("dec")),
        "dec_mean": (mean("dec"), F.avg("dec")),
        "num_low": (smallest("num"), F.min("num")),
        "num_high": (largest("num"), F.max("num")),
        "n": (count("text"), F.count("text")),
        "text_low": (smallest("text"), F.min("text")),
        "day_high": (largest("day"), F.max("day")),
        "flag_high": (largest("flag"), F.max("flag")),
        "first": (first("text"), F.min_by("text", "event_time")),
        "last": (last("num"), F.max_by("num", "event_time")),
    }
    frame = (
        Window.partitionBy("key").orderBy(F.unix_micros("event_time")).rangeBetween(-10 * SECOND, 0)
    )
    expected = data.select(
        "id", *[spark_agg.over(frame).alias(name) for name, (_, spark_agg) in reference.items()]
    )
    aggs = {name: ours for name, (ours, _) in reference.items()}
    found = sliding(data, "10 seconds", by="key", aggs=aggs, keep="id").select("id", *reference)
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
        for df in (found, expected)
    )
    assert left == right


def test_a_total_beyond_a_bigint_is_an_error_and_not_a_wrong_number(spark: SparkSession) -> None:
    data = spark.createDataFrame(
        [(instant(BASE + n), 2**62) for n in range(3)], "event_time timestamp, value bigint"
    )
    with pytest.raises(Exception, match="beyond a bigint"):
        sliding(data, "1 second", aggs={"sum": total("value")}).collect()


@pytest.mark.slow
def test_a_window_comes_out_once_when_its_pane_has_closed(spark: SparkSession) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with StreamDriver(
        spark,
        SCHEMA,
        lambda e: sliding(e, "1 minute", by="key", aggs={"n": count()}),
        lateness="0 seconds",
    ) as stream:
        early = stream.feed([(start + timedelta(seconds=s), "a", s) for s in (0, 30, 60)])
        assert all(
            row.window.end.timestamp() <= (start + timedelta(seconds=60)).timestamp()
            for row in early
        )
        assert len(early + stream.advance_to(start + timedelta(minutes=3))) == 3
        assert stream.advance_to(start + timedelta(minutes=9)) == []


def test_totals_at_the_ends_of_a_bigint_are_exact(spark: SparkSession) -> None:
    ends = [2**63 - 1, -(2**63), 5]
    data = spark.createDataFrame(
        [(instant(BASE + 10 * SECOND * n), value) for n, value in enumerate(ends)],
        "event_time timestamp, value bigint",
    )
    found = sliding(data, "1 second", aggs={"sum": total("value")}).collect()
    assert sorted(row["sum"] for row in found) == sorted(ends)


@pytest.mark.parametrize("name", ["a.b", "with space", "tick`ed", "events", "window_of"])
def test_a_key_may_have_any_name(spark: SparkSession, name: str) -> None:
    data = spark.createDataFrame([(instant(BASE), "x")], "event_time timestamp, k string")
    found = sliding(data.withColumnRenamed("k", name), "1 second", by=name, aggs={"n": count()})
    assert found.columns == ["window", name, "n"]
    assert [tuple(row)[1:] for row in found.collect()] == [("x", 1)]


def test_an_aggregate_that_can_not_roll_is_refused_at_the_call(spark: SparkSession) -> None:
    bare: Any = {"n": F.count_distinct("value")}
    with pytest.raises(ArgumentError, match="cannot roll"):
        sliding(batch(spark, [Event(BASE, "a", 1)]), "1 minute", aggs=bare)


@pytest.mark.parametrize(
    ("aggs", "options", "message"),
    [
        ({"n": count()}, {"windows": "some"}, "'each' or 'all'"),
        ({"n": count()}, {"windows": "all", "keep": "value"}, "a row is no event"),
        ({"n": count()}, {"keep": "n"}, "'n'"),
        ({"n": count()}, {"keep": "nowhere"}, "'nowhere'"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_the_call(
    spark: SparkSession, aggs: dict[str, Aggregate], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sliding(batch(spark, [Event(BASE, "a", 1)]), "1 minute", aggs=aggs, **options)
