"""Events joined with a table, by its rows now or by the versions of their time."""

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

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.joins import TableJoin, stream_table, versions
from tidegate.joins import _as_of as as_of
from tidegate.testing import StreamDriver

from ..drawing import few
from .plans import EVENTS, Change, Event, answers, events_frame, history, met, worlds

World = tuple[list[Event], list[Change]]


def apart(worlds: Iterable[World]) -> World:
    """Put many random cases side by side, each with keys and numbers of its own."""
    events, changes = [], []
    for case, (some, others) in enumerate(worlds):
        events += [
            event._replace(user=event.user and f"{case}{event.user}", id=case * 1_000 + event.id)
            for event in some
        ]
        changes += [
            change._replace(user=change.user and f"{case}{change.user}") for change in others
        ]
    return events, changes


def meet(events: DataFrame, table: DataFrame, how: Any = "left") -> DataFrame:
    return stream_table(events, table, "user", how=how, as_of="event_time", order="place")


@pytest.mark.draws
@pytest.mark.slow
def test_each_event_meets_the_version_of_its_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small blocks, so that keys have several: in one of 64 there is no more to go wrong.
    monkeypatch.setattr(as_of, "BLOCK", 3)

    @few()
    @given(st.lists(worlds(), min_size=30, max_size=30))
    def agree(cases: list[World]) -> None:
        events, changes = apart(cases)
        expected = Counter(met(event, changes) for event in events)
        found = events_frame(spark, events), history(spark, changes)
        assert answers(meet(*found)) == expected
        known = {event for event, plan, _ in expected if plan is not None}
        assert answers(meet(*found, how="inner")) == Counter(
            {m: n for m, n in expected.items() if m[1] is not None}
        )
        assert {row.id for row in meet(*found, how="semi").collect()} == known
        assert {row.id for row in meet(*found, how="anti").collect()} == {
            event.id for event in events
        } - known

    agree()


@pytest.mark.slow
def test_a_stream_gives_what_the_batch_gives_and_reads_the_table_anew_with_each_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "plans")
    changes = [Change(n * 5, "ab"[n % 2], f"plan {n}", n) for n in range(10)]
    history(spark, changes[:5]).write.format("delta").save(path)
    first = [Event(float(n), "abc"[n % 3], n) for n in range(20)]
    second = [Event(20.0 + n, "abc"[n % 3], 100 + n) for n in range(30)]

    def joined(events: DataFrame) -> DataFrame:
        return meet(events, spark.read.format("delta").load(path))

    with StreamDriver(spark, EVENTS, joined, lateness=None) as stream:
        stream.feed(events_frame(spark, first))
        assert answers(stream.results()) == Counter(met(event, changes[:5]) for event in first)
        history(spark, changes[5:]).write.format("delta").mode("append").save(path)
        stream.feed(events_frame(spark, second))
        both = [met(event, changes[:5]) for event in first] + [
            met(event, changes) for event in second
        ]
        assert answers(stream.results()) == Counter(both)
        assert answers(joined(events_frame(spark, second))) == Counter(
            met(event, changes) for event in second
        )


def test_ties_and_ends(spark: SparkSession) -> None:
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
    met_at = meet(
        events_frame(spark, [Event(at, "a", n) for n, at in enumerate(times)]),
        history(spark, changes),
    )
    plans = [row.plan for row in met_at.orderBy("id").collect()]
    assert plans == [None, "free", "free", None, "paid", "paid", None, "new"]
    assert met_at.columns == ["event_time", "user", "id", "valid_from", "plan", "place"]


def test_without_an_order_the_version_that_ends_last_counts_and_valid_to_may_be_missing(
    spark: SparkSession,
) -> None:
    table = history(
        spark, [Change(5, "a", "short", 9, until=5), Change(5, "a", "long", 1, until=8)]
    )
    event = events_frame(spark, [Event(7, "a", 1), Event(8, "a", 2)])
    joined = stream_table(event, table, "user", as_of="event_time")
    assert answers(joined) == Counter([(1, "long", 1)])
    log = history(spark, [Change(5, "a", "first", 1), Change(6, "a", "second", 2)]).drop("valid_to")
    assert answers(meet(event, log)) == Counter([(1, "second", 2), (2, "second", 2)])


def test_versions_without_a_beginning_meet_nothing_and_hide_none_of_their_key(
    spark: SparkSession,
) -> None:
    unknown = [Change(0, "a", "unknown", n) for n in range(as_of.BLOCK + 1)]
    table = history(spark, [Change(5, "a", "known", 100)]).unionByName(
        history(spark, unknown).withColumn("valid_from", F.lit(None).cast("timestamp"))
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (4, 6)])
    assert answers(meet(events, table)) == Counter([(4, None, None), (6, "known", 100)])
    assert [row.id for row in meet(events, table, how="semi").collect()] == [6]


@pytest.mark.parametrize(("how", "ids"), [("semi", [6]), ("anti", [4])])
def test_a_semi_or_anti_join_takes_a_table_with_columns_of_the_events_names(
    spark: SparkSession, how: TableJoin, ids: list[int]
) -> None:
    table = history(spark, [Change(5, "a", "known", 1)]).withColumns(
        {"event_time": F.lit(None).cast("timestamp"), "ID": F.lit(0)}
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (4, 6)])
    joined = meet(events, table, how=how)
    assert joined.columns == events.columns
    assert [row.id for row in joined.collect()] == ids


def test_overlapping_versions_do_not_multiply_events(spark: SparkSession) -> None:
    table = history(
        spark, [Change(0, "a", "outer", 1, until=50), Change(10, "a", "inner", 2, until=20)]
    )
    events = events_frame(spark, [Event(at, "a", at) for at in (5, 15, 30)])
    assert answers(meet(events, table)) == Counter(
        [(5, "outer", 1), (15, "inner", 2), (30, None, None)]
    )


def test_a_changelog_becomes_a_log_of_versions(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [("a", 1, "x", False), ("a", 2, None, True), ("a", 3, "y", None)],
        "user string, s int, plan string, gone boolean",
    ).select("user", F.timestamp_seconds("s").alias("at"), "plan", "gone")
    made = versions(changes, time="at", deleted="gone").drop("gone")
    expected = spark.createDataFrame(
        [("a", 1, "x", None), ("a", 2, None, 2), ("a", 3, "y", None)],
        "user string, f int, plan string, t int",
    ).select(
        "user",
        F.timestamp_seconds("f").alias("valid_from"),
        "plan",
        F.timestamp_seconds("t").alias("valid_to"),
    )
    assert_df_equality(made, expected, ignore_nullable=True)


def test_the_current_table_is_joined_as_in_sql_and_nulls_meet_nothing(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("a", 1), ("a", 2), ("b", 3), (None, 4)], "`user.id` string, n int"
    )
    table = spark.createDataFrame(
        [("a", "x"), ("a", "y"), (None, "z"), ("c", "w")], "`user.id` string, plan string"
    )
    found = {
        how: sorted(map(tuple, stream_table(events, table, "user.id", how=how).collect()), key=repr)
        for how in ("inner", "left", "semi", "anti")
    }
    both = [("a", 1, "x"), ("a", 1, "y"), ("a", 2, "x"), ("a", 2, "y")]
    assert found == {
        "inner": both,
        "left": [*both, ("b", 3, None), (None, 4, None)],
        "semi": [("a", 1), ("a", 2)],
        "anti": [("b", 3), (None, 4)],
    }
    assert stream_table(events.select("n", "`user.id`"), table, "user.id").columns == [
        "n",
        "user.id",
        "plan",
    ]


def test_a_key_with_thousands_of_versions_is_quick(spark: SparkSession) -> None:
    seconds = F.lit(1_700_000_000) + F.col("id")
    log = spark.range(20_000).select(
        F.lit("hot").alias("user"), F.timestamp_seconds(seconds).alias("valid_from"), "id"
    )
    events = spark.range(40_000).select(
        F.lit("hot").alias("user"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") / 2).alias("event_time"),
    )
    # By key and time alone this would compare 800 million pairs, which takes minutes.
    met = stream_table(events, log, "user", as_of="event_time")
    assert met.agg(F.count("*"), F.sum("id")).collect()[0][:] == (40_000, 2 * sum(range(20_000)))


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"how": "right"}, ArgumentError, "how is 'right'"),
        ({"on": []}, ArgumentError, "on names no column"),
        ({"on": "nobody"}, ColumnError, "on names 'nobody'"),
        ({"on": "id"}, ColumnError, "on names 'id'"),
        ({"as_of": "user"}, ColumnTypeError, "as_of has 'user' of type string"),
        ({"as_of": None}, ArgumentError, "without as_of"),
        ({"order": "nothing"}, ColumnError, "order names 'nothing'"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], told: str
) -> None:
    arguments: dict[str, Any] = {"on": "user", "as_of": "event_time", "order": "place"} | given
    events, table = (
        events_frame(spark, [Event(1, "a", 1)]),
        history(spark, [Change(1, "a", "x", 1)]),
    )
    with pytest.raises(error, match=told):
        stream_table(events, table, **arguments)


def test_tables_that_can_not_be_joined_are_refused(spark: SparkSession) -> None:
    events, table = (
        events_frame(spark, [Event(1, "a", 1)]),
        history(spark, [Change(1, "a", "x", 1)]),
    )
    with pytest.raises(ColumnError, match="both have ID"):
        stream_table(events, table.withColumn("ID", F.lit(1)), "user")
    assert stream_table(events, table.withColumn("ID", F.lit(1)), "user", how="semi").count() == 1
    with pytest.raises(ColumnTypeError, match="is string in the events and int in the table"):
        stream_table(events, table.withColumn("user", F.lit(1)), "user")
    with pytest.raises(ColumnTypeError, match="'valid_from' of type date"):
        stream_table(
            events,
            table.withColumn("valid_from", F.to_date("valid_from")),
            "user",
            as_of="event_time",
        )
    with pytest.raises(ArgumentError, match="the table is a stream"):
        stream_table(events, spark.readStream.format("rate").load(), "user")
