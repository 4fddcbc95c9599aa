"""Errors of sketches of all rows and of merged sketches are within the documented bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.support.sketch_datasets import KINDS, exact, number_of, rank_distance, rows
from tidegate.aggregates import Aggregate, merge_partials, partials
from tidegate.sketches import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    hll_bounds,
    rank_error,
    theta_bounds,
    theta_sketch,
    top_k_count_error,
)

SEEDS, N, K, CAPACITY = 100, 600, 64, 64
RANKS = [0.01, 0.5, 0.99]
AGGS: dict[str, Aggregate] = {
    "users": approx_count_distinct("text", precision=10),
    "coarse": approx_count_distinct("text", precision=6),
    "set": theta_sketch("text", precision=6),
    "quantiles": approx_quantile("number", RANKS, k=K),
    "top": approx_top_k("text", CAPACITY, capacity=CAPACITY),
}
WAYS = ("all rows", "merged")
VALUES = exact(SEEDS, N)
Results = dict[tuple[str, int, str], Row]


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> Results:
    """Return one row per data set and way, with all results and their bounds."""
    values = rows(spark, SEEDS, N)
    partial_columns = [agg.partial(F.lit(None)).alias(name) for name, agg in partials(AGGS).items()]
    parts = values.groupBy("kind", "seed", "part").agg(*partial_columns)
    ways = {
        "all rows": values.groupBy("kind", "seed").agg(*partial_columns),
        "merged": merge_partials(parts, ["kind", "seed"], AGGS),
    }
    all_rows, merged = (frame.withColumn("way", F.lit(way)) for way, frame in ways.items())
    bounds = all_rows.unionByName(merged).select(
        "kind",
        "seed",
        "way",
        *[hll_bounds(name).alias(name) for name in ("users", "coarse")],
        theta_bounds("set").alias("set"),
        *[AGGS[name].finish(F.col(name)).alias(name) for name in ("quantiles", "top")],
    )
    rows_by_case = {(row.kind, row.seed, row.way): row for row in bounds.collect()}
    assert len(rows_by_case) == 2 * len(VALUES)
    return rows_by_case


def cases(results: Results, kind: str, way: str) -> Iterator[tuple[NDArray[np.int64], Row]]:
    """Return each data set of a kind with its results."""
    for seed in range(SEEDS):
        yield VALUES[kind, seed], results[kind, seed, way]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_distinct_counts_are_within_two_standard_errors_in_95_of_100_seeds(
    results: Results, kind: str, way: str
) -> None:
    inside = [
        row.users.low <= len(np.unique(values)) <= row.users.high
        for values, row in cases(results, kind, way)
    ]
    assert sum(inside) >= 95


@pytest.mark.parametrize("name", ["coarse", "set"])
def test_a_full_sketch_exceeds_its_bounds_no_more_often_than_expected(
    results: Results, name: str
) -> None:
    # With nine values per register, each count is outside its bounds with a probability of 5 %.
    misses = [
        not row[name].low <= len(np.unique(values)) <= row[name].high
        for kind in KINDS
        for values, row in cases(results, kind, "all rows")
    ]
    expected, spread = 0.05 * len(misses), np.sqrt(0.05 * 0.95 * len(misses))
    assert sum(misses) <= expected + 2.33 * spread


@pytest.mark.parametrize(("name", "documented"), [("coarse", 1.039 / 8), ("set", 1 / np.sqrt(63))])
def test_the_measured_standard_error_equals_the_documented_one(
    results: Results, name: str, documented: float
) -> None:
    errors = [
        row[name].estimate / N - 1
        for kind in ("sequence", "prefix")
        for _, row in cases(results, kind, "all rows")
    ]
    # 200 samples measure the deviation to 5 %, and the mean to 7 % of the deviation.
    assert 0.85 * documented < np.std(errors) < 1.15 * documented
    assert abs(np.mean(errors)) < 0.2 * documented


def test_distinct_counts_of_merged_parts_equal_those_of_all_rows(results: Results) -> None:
    for kind, seed in VALUES:
        all_rows, parts = (results[kind, seed, way] for way in WAYS)
        assert (all_rows.users, all_rows.coarse, all_rows.set) == (
            parts.users,
            parts.coarse,
            parts.set,
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_within_the_rank_error_in_95_of_100_seeds(
    results: Results, kind: str, way: str
) -> None:
    for index, at in enumerate(RANKS):
        distances = [
            rank_distance(values, row.quantiles[index], at)
            for values, row in cases(results, kind, way)
        ]
        assert sum(distance <= rank_error(K) for distance in distances) >= 95


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_the_most_frequent_values_are_always_within_their_error(
    results: Results, kind: str, way: str
) -> None:
    listed = 0
    for values, row in cases(results, kind, way):
        counts = Counter(values.tolist())
        error = row.top[0].error if row.top else top_k_count_error(CAPACITY) * N
        assert error <= top_k_count_error(CAPACITY) * N
        assert all(
            one["count"] - error <= counts[number_of(one.value)] <= one["count"] for one in row.top
        )
        assert {value for value, n in counts.items() if n > 2 * error} <= {
            number_of(one.value) for one in row.top
        }
        assert row.top == sorted(row.top, key=lambda one: (-one["count"], one.value))
        listed += len(row.top)
    assert listed >= 3 * SEEDS if kind == "zipf" else listed == 0
