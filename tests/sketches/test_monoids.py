"""Merging is associative and commutative, and an empty partial is its identity."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tidegate.aggregates import Aggregate, finish, merge_partials, partials
from tidegate.sketches import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    theta_sketch,
    top_k_count_error,
)

CAPACITY = 6
# The smallest sketches, so that few values exceed their exact size.
AGGS: dict[str, Aggregate] = {
    "users": approx_count_distinct("value", precision=4),
    "set": theta_sketch("value", precision=4),
    "quantiles": approx_quantile("value", [0.0, 1.0], k=8),
    "top": approx_top_k("value", CAPACITY, capacity=CAPACITY),
}
Parts = list[list[int | None]]
VALUES = st.one_of(st.none(), st.integers(0, 60), st.just(7))
PARTS = st.lists(st.lists(VALUES, min_size=1, max_size=40), min_size=1, max_size=6)


def in_ways(spark: SparkSession, cases: list[Parts], seed: int) -> dict[tuple[int, str], Row]:
    """Return the results of each case: from all values, merged in several orders, and merged with
    empty partials."""
    rows = [
        (n, part, value)
        for n, parts in enumerate(cases)
        for part, part_values in enumerate(parts)
        for value in part_values
    ]
    values = spark.createDataFrame(rows, "case int, part int, value int")
    partial_columns = [agg.partial(F.lit(None)).alias(name) for name, agg in partials(AGGS).items()]
    part_sketches = values.groupBy("case", "part").agg(*partial_columns)
    no_values = values.select(
        "case", F.lit(-1).alias("part"), F.lit(None).cast("int").alias("value")
    )
    empty = no_values.groupBy("case", "part").agg(*partial_columns)

    def grouped(way: str, frame: DataFrame, draw: int) -> DataFrame:
        with_groups = frame.withColumn(
            "group", F.pmod(F.hash(F.col("part"), F.lit(draw)), F.lit(3))
        )
        merged = merge_partials(with_groups.repartition(2, F.rand(draw)), ["case", "group"], AGGS)
        return merged.withColumn("way", F.lit(way)).drop("group")

    one_by_one = part_sketches.withColumn("way", F.lit("merged")).drop("part")
    with_empty = grouped("with empty partials", part_sketches.unionByName(empty), seed + 1)
    all_ways = one_by_one.unionByName(grouped("grouped", part_sketches, seed)).unionByName(
        with_empty
    )
    all_values = (
        values.withColumn("way", F.lit("all_values")).groupBy("case", "way").agg(*partial_columns)
    )
    results = finish(merge_partials(all_ways, ["case", "way"], AGGS).unionByName(all_values), AGGS)
    return {(row.case, row.way): row for row in results.collect()}


@pytest.mark.draws
@pytest.mark.slow
def test_any_split_order_and_grouping_gives_the_results_of_all_values(spark: SparkSession) -> None:
    @few()
    @given(cases=st.lists(PARTS, min_size=6, max_size=12), seed=st.integers(0, 10**6))
    def check(cases: list[Parts], seed: int) -> None:
        results = in_ways(spark, cases, seed)
        assert len(results) == 4 * len(cases)
        for (number, _), row in results.items():
            require_equal_results(cases[number], row, results[number, "all_values"])

    check()


def require_equal_results(parts: Parts, row: Row, all_values: Row) -> None:
    known = [value for part in parts for value in part if value is not None]
    counts = Counter(known)
    assert (row.users, row.set) == (all_values.users, all_values.set)
    assert row.quantiles == ([min(known), max(known)] if known else None)
    error = row.top[0].error if row.top else 0
    assert error <= top_k_count_error(CAPACITY) * len(known) + len(parts)
    assert all(one["count"] - error <= counts[one.value] <= one["count"] for one in row.top)
    if len(counts) <= CAPACITY:
        assert row.users == len(counts)
        assert [tuple(one) for one in row.top] == sorted(
            ((value, n, 0) for value, n in counts.items()), key=lambda one: (-one[1], one[0])
        )
    if len(counts) <= 16:
        assert row.set == len(counts)


def test_quantiles_of_merged_parts_stay_within_the_rank_error_in_any_order(
    spark: SparkSession,
) -> None:
    rng = random.Random(11)
    values = [(rng.gauss(0, 1), rng.randrange(20), rng.randrange(2)) for _ in range(4_000)]
    agg = approx_quantile("value", [0.1, 0.5, 0.9], k=200)
    parts = spark.createDataFrame(values, "value double, part int, half int").groupBy(
        "half", "part"
    )
    part_sketches = parts.agg(agg.partial(F.lit(None)).alias("q"))
    halves = merge_partials(part_sketches, "half", {"q": agg})
    ways = [
        merge_partials(frame.withColumn("all", F.lit(1)), "all", {"q": agg})
        for frame in (part_sketches, halves)
    ]
    ordered = sorted(value for value, _, _ in values)
    for row in finish(ways[0].unionByName(ways[1]), {"q": agg}).collect():
        for at, quantile in zip([0.1, 0.5, 0.9], row.q, strict=True):
            # Three times the documented error, for two results of a randomized sketch.
            assert abs(ordered.index(quantile) / len(ordered) - at) < 3 * 0.0193
