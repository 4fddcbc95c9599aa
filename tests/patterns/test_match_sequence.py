"""`match_sequence` on DataFrames: measures, times, keys and the order of ties."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.pattern_frames import event_rows, matched_numbers, number_measures
from tidegate.patterns import compare, events_of, match_sequence, not_followed_by, sequence, step

A, B, C, D = ("kind = 'a'", "kind = 'b'", "kind = 'c'", "kind = 'd'")
WITHIN = "1 hour"
a, b, c = step("a", A), step("b", B), step("c", C)


def test_measures_aggregate_the_events_of_a_step(spark: SparkSession) -> None:
    pattern = sequence(
        a, step("b", B, times=(0, None)), step("d", D, times=(0, 1)), c, within=WITHIN
    )
    bs = events_of("b")
    measures = {
        "n": bs.count(),
        "n_all": events_of().count(),
        "first": bs.first("value"),
        "last": bs.last(F.col("value") * 10),
        "sum": bs.sum("value"),
        "decimal_sum": bs.sum("cast(value as decimal(10, 2))"),
        "avg": bs.avg("value"),
        "min": bs.min("value"),
        "max": bs.max("value"),
        "values": bs.values("value"),
        "no_first": events_of("d").first("value"),
        "no_sum": events_of("d").sum("value"),
        "kinds": events_of().values("named_struct('kind', kind)"),
    }
    events = event_rows(spark, "a b4 b b1 c")
    (row,) = match_sequence(events, pattern, by="key", measures=measures).collect()
    assert row.asDict(recursive=True) | {"started": 0, "ended": 0, "decided": 0} == {
        "key": "k",
        "started": 0,
        "ended": 0,
        "decided": 0,
        "n": 3,
        "n_all": 5,
        "first": 4,
        "last": 10,
        "sum": 5,
        "decimal_sum": 5,
        "avg": 2.5,
        "min": 1,
        "max": 4,
        "values": [4, None, 1],
        "no_first": None,
        "no_sum": None,
        "kinds": [{"kind": kind} for kind in "abbbc"],
    }


def test_a_match_has_the_times_of_its_start_its_end_and_its_decision(spark: SparkSession) -> None:
    events = event_rows(spark, "a d b d a d")
    at = ["started", "ended", "decided"]
    micros = [F.unix_micros(name).alias(name) for name in at]
    paid = match_sequence(events, sequence(a, b, within="10 seconds"), timeouts=True)
    unpaid = match_sequence(events, sequence(a, not_followed_by(B), within="10 seconds"))
    seconds = {
        name: [tuple(value // 1_000_000 for value in row) for row in rows.select(micros).collect()]
        for name, rows in {"paid": paid.where("outcome = 'match'"), "unpaid": unpaid}.items()
    }
    assert seconds == {"paid": [(0, 2, 2)], "unpaid": [(4, 4, 14)]}


def test_a_timeout_has_the_events_of_its_partial_match(spark: SparkSession) -> None:
    pattern = sequence(a, b, c, within="3 seconds")
    result = match_sequence(
        event_rows(spark, "a b d d a d b c"),
        pattern,
        by="key",
        measures=number_measures(pattern),
        skip="to_next",
        timeouts=True,
    )
    assert matched_numbers(result.where("outcome = 'timeout'"), pattern) == [[0, 1]]
    assert matched_numbers(result.where("outcome = 'match'"), pattern) == [[4, 6, 7]]


def test_a_partial_match_that_a_negation_ends_is_not_a_timeout(spark: SparkSession) -> None:
    pattern = sequence(a, not_followed_by(B), c, within="3 seconds")
    assert match_sequence(event_rows(spark, "a b d d d d"), pattern, timeouts=True).count() == 0


def test_events_with_a_null_time_never_match_and_a_null_key_is_a_key(
    spark: SparkSession,
) -> None:
    pattern = sequence(a, b, within=WITHIN)
    events = event_rows(spark, "a b b").withColumn("key", F.lit(None).cast("string"))
    timed = events.withColumn("event_time", F.when(F.col("number") != 1, F.col("event_time")))
    result = match_sequence(timed, pattern, by="key", measures=number_measures(pattern))
    assert matched_numbers(result, pattern) == [[0, 2]]
    assert [row.key for row in result.collect()] == [None]


def test_order_sorts_events_of_one_instant(spark: SparkSession) -> None:
    pattern = sequence(a, b, within=WITHIN)
    events = event_rows(spark, "b a").withColumn("event_time", F.timestamp_micros(F.lit(0)))
    reversed_events = events.withColumn("number", -F.col("number"))
    assert match_sequence(events, pattern, order="number").count() == 0
    assert match_sequence(reversed_events, pattern, order="number").count() == 1


def test_values_compare_as_in_spark_and_may_be_expressions(spark: SparkSession) -> None:
    events = event_rows(spark, "a5 b10").withColumns(
        {
            "real": F.when(F.col("kind") == "b", F.lit(float("nan"))).otherwise(float("inf")),
            "text": F.when(F.col("kind") == "b", F.lit("é")).otherwise("z"),
        }
    )
    above = [compare(value, ">", events_of("a").first(value)) for value in ("real", "text")]
    twice = compare(F.col("value"), "=", events_of("a").first("value * 2"))
    pattern = sequence(a, step("b", B, twice, *above), within=WITHIN)
    assert match_sequence(events, pattern).count() == 1
