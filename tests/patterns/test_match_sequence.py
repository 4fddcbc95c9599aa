"""Sequences as Spark's users call them: measures, times, keys and the order of ties."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.patterns import compare, match_sequence, not_, of, sequence, step

from .frames import numbers, story, taken

A, B, C, D = ("kind = 'a'", "kind = 'b'", "kind = 'c'", "kind = 'd'")
WITHIN = "1 hour"
a, b, c = step("a", A), step("b", B), step("c", C)


def test_measures_tell_of_the_events_of_a_step(spark: SparkSession) -> None:
    pattern = sequence(
        a, step("b", B, times=(0, None)), step("d", D, times=(0, 1)), c, within=WITHIN
    )
    bs = of("b")
    measures = {
        "n": bs.count(),
        "of_all": of().count(),
        "first": bs.first("value"),
        "last": bs.last(F.col("value") * 10),
        "total": bs.total("value"),
        "cents": bs.total("cast(value as decimal(10, 2))"),
        "mean": bs.mean("value"),
        "least": bs.smallest("value"),
        "most": bs.largest("value"),
        "values": bs.values("value"),
        "none": of("d").first("value"),
        "no_total": of("d").total("value"),
        "kinds": of().values("named_struct('kind', kind)"),
    }
    (row,) = match_sequence(
        story(spark, "a b4 b b1 c"), pattern, by="key", measures=measures
    ).collect()
    assert row.asDict(recursive=True) | {"started": 0, "ended": 0, "decided": 0} == {
        "key": "k",
        "started": 0,
        "ended": 0,
        "decided": 0,
        "n": 3,
        "of_all": 5,
        "first": 4,
        "last": 10,
        "total": 5,
        "cents": 5,
        "mean": 2.5,
        "least": 1,
        "most": 4,
        "values": [4, None, 1],
        "none": None,
        "no_total": None,
        "kinds": [{"kind": kind} for kind in "abbbc"],
    }


def test_a_match_says_when_it_began_ended_and_was_certain(spark: SparkSession) -> None:
    events = story(spark, "a d b d a d")
    at = ["started", "ended", "decided"]
    micros = [F.unix_micros(name).alias(name) for name in at]
    paid = match_sequence(events, sequence(a, b, within="10 seconds"), timeouts=True)
    unpaid = match_sequence(events, sequence(a, not_(B), within="10 seconds"))
    seconds = {
        name: [tuple(value // 1_000_000 for value in row) for row in rows.select(micros).collect()]
        for name, rows in {"paid": paid.where("outcome = 'match'"), "unpaid": unpaid}.items()
    }
    assert seconds == {"paid": [(0, 2, 2)], "unpaid": [(4, 4, 14)]}


def test_a_time_out_comes_out_with_what_it_had_found(spark: SparkSession) -> None:
    pattern = sequence(a, b, c, within="3 seconds")
    found = match_sequence(
        story(spark, "a b d d a d b c"),
        pattern,
        by="key",
        measures=numbers(pattern),
        skip="to_next",
        timeouts=True,
    )
    assert taken(found.where("outcome = 'timeout'"), pattern) == [[0, 1]]
    assert taken(found.where("outcome = 'match'"), pattern) == [[4, 6, 7]]


def test_what_a_forbidden_event_ends_is_no_time_out(spark: SparkSession) -> None:
    pattern = sequence(a, not_(B), c, within="3 seconds")
    assert match_sequence(story(spark, "a b d d d d"), pattern, timeouts=True).count() == 0


def test_events_without_a_time_are_in_no_match_and_a_null_key_is_a_key(
    spark: SparkSession,
) -> None:
    pattern = sequence(a, b, within=WITHIN)
    events = story(spark, "a b b").withColumn("key", F.lit(None).cast("string"))
    timed = events.withColumn("event_time", F.when(F.col("number") != 1, F.col("event_time")))
    found = match_sequence(timed, pattern, by="key", measures=numbers(pattern))
    assert taken(found, pattern) == [[0, 2]]
    assert [row.key for row in found.collect()] == [None]


def test_events_of_one_instant_come_in_the_order_that_is_given(spark: SparkSession) -> None:
    pattern = sequence(a, b, within=WITHIN)
    events = story(spark, "b a").withColumn("event_time", F.timestamp_micros(F.lit(0)))
    found = match_sequence(events, pattern, order="number")
    turned = match_sequence(events.withColumn("number", -F.col("number")), pattern, order="number")
    assert (found.count(), turned.count()) == (0, 1)


def test_values_compare_as_in_spark_and_may_be_computed(spark: SparkSession) -> None:
    events = story(spark, "a5 b10").withColumns(
        {
            "real": F.when(F.col("kind") == "b", F.lit(float("nan"))).otherwise(float("inf")),
            "text": F.when(F.col("kind") == "b", F.lit("é")).otherwise("z"),
        }
    )
    above = [compare(value, ">", of("a").first(value)) for value in ("real", "text")]
    twice = compare(F.col("value"), "=", of("a").first("value * 2"))
    pattern = sequence(a, step("b", B, twice, *above), within=WITHIN)
    assert match_sequence(events, pattern).count() == 1
