"""Lookup joins of events with the current rows or the versions of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.query_plans import (
    EVENTS,
    Change,
    Event,
    events_frame,
    expected_lookup,
    lookup_cases,
    lookup_results,
    versions_frame,
)
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.joins import LookupJoinType, stream_table, validity_periods
from tidegate.joins.lookup_join import BLOCK
from tidegate.testing import StreamDriver

LookupCase = tuple[list[Event], list[Change]]


def combine(cases: Iterable[LookupCase]) -> LookupCase:
    """Combine random cases, with distinct keys and IDs."""
    events, changes = [], []
    for case, (case_events, case_changes) in enumerate(cases):
        events += [
            event._replace(user=event.user and f"{case}{event.user}", id=case * 1_000 + event.id)
            for event in case_events
        ]
        changes += [
            change._replace(user=change.user and f"{case}{change.user}") for change in case_changes
        ]
    return events, changes


def join_versions(events: DataFrame, table: DataFrame, how: Any = "left") -> DataFrame:
    return stream_table(events, table, "user", how=how, as_of="event_time", order="place")


@pytest.mark.draws
@pytest.mark.slow
def test_each_event_matches_the_version_of_its_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small blocks, so that keys have several blocks.
    monkeypatch.setattr("tidegate.joins.lookup_join.BLOCK", 3)

    @few()
    @given(st.lists(lookup_cases(), min_size=30, max_size=30))
    def agree(cases: list[LookupCase]) -> None:
        events, changes = combine(cases)
        expected = Counter(expected_lookup(event, changes) for event in events)
        frames = events_frame(spark, events), versions_frame(spark, changes)
        assert lookup_results(join_versions(*frames)) == expected
        matched = {event for event, plan, _ in expected if plan is not None}
        assert lookup_results(join_versions(*frames, how="inner")) == Counter(
            {m: n for m, n in expected.items() if m[1] is not None}
        )
        assert {row.id for row in join_versions(*frames, how="semi").collect()} == matched
        assert {row.id for row in join_versions(*frames, how="anti").collect()} == {
            event.id for event in events
        } - matched

    agree()


@pytest.mark.slow
def test_a_stream_equals_the_batch_and_reads_the_current_table_in_each_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "plans")
    changes = [Change(n * 5, "ab"[n % 2], f"plan {n}", n) for n in range(10)]
    versions_frame(spark, changes[:5]).write.format("delta").save(path)
    first = [Event(float(n), "abc"[n % 3], n) for n in range(20)]
    second = [Event(20.0 + n, "abc"[n % 3], 100 + n) for n in range(30)]

    def joined(events: DataFrame) -> DataFrame:
        return join_versions(events, spark.read.format("delta").load(path))

    with StreamDriver(spark, EVENTS, joined, watermark_delay=None) as stream:
        stream.feed(events_frame(spark, first))
        assert lookup_results(stream.results()) == Counter(
            expected_lookup(event, changes[:5]) for event in first
        )
        versions_frame(spark, changes[5:]).write.format("delta").mode("append").save(path)
        stream.feed(events_frame(spark, second))
        pairs = [expected_lookup(event, changes[:5]) for event in first] + [
            expected_lookup(event, changes) for event in second
        ]
        assert lookup_results(stream.results()) == Counter(pairs)
        assert lookup_results(joined(events_frame(spark, second))) == Counter(
            expected_lookup(event, changes) for event in second
        )


def test_versions_with_equal_starts_and_with_ends(spark: SparkSession) -> None:
    # free from 10 to 20, a gap, paid from 30; two changes at 40, the later in the log a deletion;
    # then two plans at 50.
    changes = [
        Change(10, "a", "free", 1, until=20),
        Change(30, "a", "paid", 2),
        Change(40, "a", "team", 3),
        Change(40, "a", None, 4),
        Change(50, "a", "old", 6),
        Change(50, "a", "new", 7),
    ]
    times = [9.999999, 10, 19.999999, 20, 30, 39.999999, 40, 50]
    joined = join_versions(
        events_frame(spark, [Event(at, "a", n) for n, at in enumerate(times)]),
        versions_frame(spark, changes),
    )
    plans = [row.plan for row in joined.orderBy("id").collect()]
    assert plans == [None, "free", "free", None, "paid", "paid", None, "new"]
    assert joined.columns == ["event_time", "user", "id", "valid_from", "plan", "place"]


def test_without_order_the_version_that_ends_last_applies_and_valid_to_is_optional(
    spark: SparkSession,
) -> None:
    table = versions_frame(
        spark, [Change(5, "a", "short", 9, until=5), Change(5, "a", "long", 1, until=8)]
    )
    event = events_frame(spark, [Event(7, "a", 1), Event(8, "a", 2)])
    joined = stream_table(event, table, "user", as_of="event_time")
    assert lookup_results(joined) == Counter([(1, "long", 1)])
    log = versions_frame(spark, [Change(5, "a", "first", 1), Change(6, "a", "second", 2)]).drop(
        "valid_to"
    )
    assert lookup_results(join_versions(event, log)) == Counter(
        [(1, "second", 2), (2, "second", 2)]
    )


def test_versions_without_a_start_match_nothing_and_do_not_hide_others(
    spark: SparkSession,
) -> None:
    unknown = [Change(0, "a", "unknown", n) for n in range(BLOCK + 1)]
    table = versions_frame(spark, [Change(5, "a", "known", 100)]).unionByName(
        versions_frame(spark, unknown).withColumn("valid_from", F.lit(None).cast("timestamp"))
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (4, 6)])
    assert lookup_results(join_versions(events, table)) == Counter(
        [(4, None, None), (6, "known", 100)]
    )
    assert [row.id for row in join_versions(events, table, how="semi").collect()] == [6]


@pytest.mark.parametrize(("how", "ids"), [("semi", [6]), ("anti", [4])])
def test_a_semi_or_anti_join_allows_common_columns(
    spark: SparkSession, how: LookupJoinType, ids: list[int]
) -> None:
    table = versions_frame(spark, [Change(5, "a", "known", 1)]).withColumns(
        {"event_time": F.lit(None).cast("timestamp"), "ID": F.lit(0)}
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (4, 6)])
    joined = join_versions(events, table, how=how)
    assert joined.columns == events.columns
    assert [row.id for row in joined.collect()] == ids


def test_overlapping_versions_do_not_multiply_events(spark: SparkSession) -> None:
    table = versions_frame(
        spark, [Change(0, "a", "outer", 1, until=50), Change(10, "a", "inner", 2, until=20)]
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (5, 15, 30)])
    assert lookup_results(join_versions(events, table)) == Counter(
        [(5, "outer", 1), (15, "inner", 2), (30, None, None)]
    )


def test_a_changelog_becomes_a_versioned_table(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [("a", 1, "x", False), ("a", 2, None, True), ("a", 3, "y", None)],
        "user string, s int, plan string, is_deleted boolean",
    ).select("user", F.timestamp_seconds("s").alias("at"), "plan", "is_deleted")
    result = validity_periods(changes, time="at", deleted="is_deleted").drop("is_deleted")
    expected = spark.createDataFrame(
        [("a", 1, "x", None), ("a", 2, None, 2), ("a", 3, "y", None)],
        "user string, f int, plan string, t int",
    ).select(
        "user",
        F.timestamp_seconds("f").alias("valid_from"),
        "plan",
        F.timestamp_seconds("t").alias("valid_to"),
    )
    assert_df_equality(result, expected, ignore_nullable=True)


def test_the_current_table_is_joined_as_in_sql_and_nulls_match_nothing(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("a", 1), ("a", 2), ("b", 3), (None, 4)], "`user.id` string, n int"
    )
    table = spark.createDataFrame(
        [("a", "x"), ("a", "y"), (None, "z"), ("c", "w")], "`user.id` string, plan string"
    )
    results = {
        how: sorted(map(tuple, stream_table(events, table, "user.id", how=how).collect()), key=repr)
        for how in ("inner", "left", "semi", "anti")
    }
    pairs = [("a", 1, "x"), ("a", 1, "y"), ("a", 2, "x"), ("a", 2, "y")]
    assert results == {
        "inner": pairs,
        "left": [*pairs, ("b", 3, None), (None, 4, None)],
        "semi": [("a", 1), ("a", 2)],
        "anti": [("b", 3), (None, 4)],
    }
    assert stream_table(events.select("n", "`user.id`"), table, "user.id").columns == [
        "n",
        "user.id",
        "plan",
    ]


def test_a_key_with_thousands_of_versions_is_fast(spark: SparkSession) -> None:
    seconds = F.lit(1_700_000_000) + F.col("id")
    log = spark.range(20_000).select(
        F.lit("hot").alias("user"), F.timestamp_seconds(seconds).alias("valid_from"), "id"
    )
    events = spark.range(40_000).select(
        F.lit("hot").alias("user"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") / 2).alias("event_time"),
    )
    # A join by key and time would compare 800 million pairs, which takes minutes.
    joined = stream_table(events, log, "user", as_of="event_time")
    assert joined.agg(F.count("*"), F.sum("id")).collect()[0][:] == (40_000, 2 * sum(range(20_000)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"how": "right"}, ArgumentError, "invalid how: 'right'"),
        ({"on": []}, ArgumentError, "invalid on: no columns"),
        ({"on": "nobody"}, ColumnError, "invalid on: no column 'nobody'"),
        ({"on": "id"}, ColumnError, "invalid on: no column 'id'"),
        ({"as_of": "user"}, ColumnTypeError, "invalid as_of: column 'user' has type string"),
        ({"as_of": None}, ArgumentError, "without as_of"),
        ({"order": "nothing"}, ColumnError, "invalid order: no column 'nothing'"),
    ],
)
def test_invalid_arguments_raise_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"on": "user", "as_of": "event_time", "order": "place"} | options
    events, table = (
        events_frame(spark, [Event(1, "a", 1)]),
        versions_frame(spark, [Change(1, "a", "x", 1)]),
    )
    with pytest.raises(error, match=message):
        stream_table(events, table, **arguments)


def test_invalid_tables_raise(spark: SparkSession) -> None:
    events, table = (
        events_frame(spark, [Event(1, "a", 1)]),
        versions_frame(spark, [Change(1, "a", "x", 1)]),
    )
    with pytest.raises(ColumnError, match="columns ID also exist"):
        stream_table(events, table.withColumn("ID", F.lit(1)), "user")
    assert stream_table(events, table.withColumn("ID", F.lit(1)), "user", how="semi").count() == 1
    with pytest.raises(ColumnTypeError, match="has type string in the events and int in the table"):
        stream_table(events, table.withColumn("user", F.lit(1)), "user")
    with pytest.raises(ColumnTypeError, match="'valid_from' has type date"):
        stream_table(
            events,
            table.withColumn("valid_from", F.to_date("valid_from")),
            "user",
            as_of="event_time",
        )
    with pytest.raises(ArgumentError, match="invalid table: a stream"):
        stream_table(events, spark.readStream.format("rate").load(), "user")
