"""Merging is associative and commutative, and nothing added changes nothing: any parts, any order,
any grouping."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, finished, merged, partials
from tidegate.sketches import count_error, distinct, quantile, theta, top

from ..drawing import few

CAPACITY = 6
# The smallest sketches there are, so that few values are beyond what they hold exactly.
AGGS: dict[str, Aggregate] = {
    "users": distinct("value", precision=4),
    "set": theta("value", precision=4),
    "quantiles": quantile("value", [0.0, 1.0], k=8),
    "top": top("value", CAPACITY, capacity=CAPACITY),
}
Parts = list[list[int | None]]
VALUES = st.one_of(st.none(), st.integers(0, 60), st.just(7))
PARTS = st.lists(st.lists(VALUES, min_size=1, max_size=40), min_size=1, max_size=6)


def in_ways(spark: SparkSession, cases: list[Parts], seed: int) -> dict[tuple[int, str], Row]:
    """Return each case's answers from all values at once, and merged in several orders, with
    nothing added too."""
    rows = [
        (n, part, value)
        for n, parts in enumerate(cases)
        for part, held in enumerate(parts)
        for value in held
    ]
    values = spark.createDataFrame(rows, "case int, part int, value int")
    left = [agg.partial(F.lit(None)).alias(name) for name, agg in partials(AGGS).items()]
    of_parts = values.groupBy("case", "part").agg(*left)
    nothing = values.select("case", F.lit(-1).alias("part"), F.lit(None).cast("int").alias("value"))
    empty = nothing.groupBy("case", "part").agg(*left)

    def grouped(way: str, frame: DataFrame, draw: int) -> DataFrame:
        first = frame.withColumn("group", F.pmod(F.hash(F.col("part"), F.lit(draw)), F.lit(3)))
        again = merged(first.repartition(2, F.rand(draw)), ["case", "group"], AGGS)
        return again.withColumn("way", F.lit(way)).drop("group")

    one_by_one = of_parts.withColumn("way", F.lit("merged")).drop("part")
    with_nothing = grouped("with nothing", of_parts.unionByName(empty), seed + 1)
    together = one_by_one.unionByName(grouped("grouped", of_parts, seed)).unionByName(with_nothing)
    whole = values.withColumn("way", F.lit("whole")).groupBy("case", "way").agg(*left)
    answers = finished(merged(together, ["case", "way"], AGGS).unionByName(whole), AGGS)
    return {(row.case, row.way): row for row in answers.collect()}


@pytest.mark.draws
@pytest.mark.slow
def test_any_split_order_and_grouping_gives_the_whole(spark: SparkSession) -> None:
    @few()
    @given(cases=st.lists(PARTS, min_size=6, max_size=12), seed=st.integers(0, 10**6))
    def holds(cases: list[Parts], seed: int) -> None:
        found = in_ways(spark, cases, seed)
        assert len(found) == 4 * len(cases)
        for (number, _), row in found.items():
            agrees(cases[number], row, found[number, "whole"])

    holds()


def agrees(parts: Parts, row: Row, whole: Row) -> None:
    known = [value for part in parts for value in part if value is not None]
    counts = Counter(known)
    assert (row.users, row.set) == (whole.users, whole.set)
    assert row.quantiles == ([min(known), max(known)] if known else None)
    error = row.top[0].error if row.top else 0
    assert error <= count_error(CAPACITY) * len(known) + len(parts)
    assert all(one["count"] - error <= counts[one.value] <= one["count"] for one in row.top)
    if len(counts) <= CAPACITY:
        assert row.users == len(counts)
        assert [tuple(one) for one in row.top] == sorted(
            ((value, n, 0) for value, n in counts.items()), key=lambda one: (-one[1], one[0])
        )
    if len(counts) <= 16:
        assert row.set == len(counts)


def test_quantiles_of_merged_parts_stay_within_the_rank_error_whatever_the_order(
    spark: SparkSession,
) -> None:
    chance = random.Random(11)
    values = [(chance.gauss(0, 1), chance.randrange(20), chance.randrange(2)) for _ in range(4_000)]
    agg = quantile("value", [0.1, 0.5, 0.9], k=200)
    parts = spark.createDataFrame(values, "value double, part int, half int").groupBy(
        "half", "part"
    )
    of_parts = parts.agg(agg.partial(F.lit(None)).alias("q"))
    halves = merged(of_parts, "half", {"q": agg})
    ways = [
        merged(frame.withColumn("all", F.lit(1)), "all", {"q": agg}) for frame in (of_parts, halves)
    ]
    held = sorted(value for value, _, _ in values)
    for row in finished(ways[0].unionByName(ways[1]), {"q": agg}).collect():
        for at, answer in zip([0.1, 0.5, 0.9], row.q, strict=True):
            # Three times the stated error, for two answers whose coins are tossed anew in each run.
            assert abs(held.index(answer) / len(held) - at) < 3 * 0.0193
