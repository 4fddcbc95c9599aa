"""Errors against exact answers: within the stated bounds, from all rows at once and from merged
parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, merged, partials
from tidegate.sketches import (
    count_error,
    distinct,
    distinct_bounds,
    quantile,
    rank_error,
    theta,
    theta_bounds,
    top,
)

from .datasets import KINDS, exact, number_of, rank_distance, rows

SEEDS, N, K, CAPACITY = 100, 600, 64, 64
RANKS = [0.01, 0.5, 0.99]
AGGS: dict[str, Aggregate] = {
    "users": distinct("text", precision=10),
    "coarse": distinct("text", precision=6),
    "set": theta("text", precision=6),
    "quantiles": quantile("number", RANKS, k=K),
    "top": top("text", CAPACITY, capacity=CAPACITY),
}
WAYS = ("whole", "merged")
VALUES = exact(SEEDS, N)
Found = dict[tuple[str, int, str], Row]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """Return one row a data set and way, with all answers and their bounds."""
    values = rows(spark, SEEDS, N)
    left = [agg.partial(F.lit(None)).alias(name) for name, agg in partials(AGGS).items()]
    parts = values.groupBy("kind", "seed", "part").agg(*left)
    ways = {
        "whole": values.groupBy("kind", "seed").agg(*left),
        "merged": merged(parts, ["kind", "seed"], AGGS),
    }
    whole, of_parts = (frame.withColumn("way", F.lit(way)) for way, frame in ways.items())
    answers = whole.unionByName(of_parts).select(
        "kind",
        "seed",
        "way",
        *[distinct_bounds(name).alias(name) for name in ("users", "coarse")],
        theta_bounds("set").alias("set"),
        *[AGGS[name].finish(F.col(name)).alias(name) for name in ("quantiles", "top")],
    )
    made = {(row.kind, row.seed, row.way): row for row in answers.collect()}
    assert len(made) == 2 * len(VALUES)
    return made


def cases(found: Found, kind: str, way: str) -> Iterator[tuple[NDArray[np.int64], Row]]:
    """Return each data set of a kind with its answers."""
    for seed in range(SEEDS):
        yield VALUES[kind, seed], found[kind, seed, way]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_distinct_counts_are_within_two_standard_errors_in_95_of_100_seeds(
    found: Found, kind: str, way: str
) -> None:
    inside = [
        row.users.low <= len(np.unique(values)) <= row.users.high
        for values, row in cases(found, kind, way)
    ]
    assert sum(inside) >= 95


@pytest.mark.parametrize("name", ["coarse", "set"])
def test_far_beyond_its_size_a_sketch_misses_no_oftener_than_chance_allows(
    found: Found, name: str
) -> None:
    # With nine values for each register the bound is just the error: each count has a chance of 5
    # in 100 to miss.
    misses = [
        not row[name].low <= len(np.unique(values)) <= row[name].high
        for kind in KINDS
        for values, row in cases(found, kind, "whole")
    ]
    chance, spread = 0.05 * len(misses), np.sqrt(0.05 * 0.95 * len(misses))
    assert sum(misses) <= chance + 2.33 * spread


@pytest.mark.parametrize(("name", "stated"), [("coarse", 1.039 / 8), ("set", 1 / np.sqrt(63))])
def test_the_stated_standard_error_is_the_measured_one(
    found: Found, name: str, stated: float
) -> None:
    errors = [
        row[name].estimate / N - 1
        for kind in ("sequence", "prefix")
        for _, row in cases(found, kind, "whole")
    ]
    # The deviation of 200 draws is known to 5 in 100, their mean to 7 in 100 of the deviation.
    assert 0.85 * stated < np.std(errors) < 1.15 * stated
    assert abs(np.mean(errors)) < 0.2 * stated


def test_distinct_counts_of_merged_parts_equal_those_of_the_whole(found: Found) -> None:
    for kind, seed in VALUES:
        whole, parts = (found[kind, seed, way] for way in WAYS)
        assert (whole.users, whole.coarse, whole.set) == (parts.users, parts.coarse, parts.set)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_within_the_rank_error_in_95_of_100_seeds(
    found: Found, kind: str, way: str
) -> None:
    for index, at in enumerate(RANKS):
        distances = [
            rank_distance(values, row.quantiles[index], at)
            for values, row in cases(found, kind, way)
        ]
        assert sum(distance <= rank_error(K) for distance in distances) >= 95


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_the_most_frequent_are_within_their_error_always(
    found: Found, kind: str, way: str
) -> None:
    listed = 0
    for values, row in cases(found, kind, way):
        counts = Counter(values.tolist())
        error = row.top[0].error if row.top else count_error(CAPACITY) * N
        assert error <= count_error(CAPACITY) * N
        assert all(
            one["count"] - error <= counts[number_of(one.value)] <= one["count"] for one in row.top
        )
        assert {value for value, n in counts.items() if n > 2 * error} <= {
            number_of(one.value) for one in row.top
        }
        assert row.top == sorted(row.top, key=lambda one: (-one["count"], one.value))
        listed += len(row.top)
    assert listed >= 3 * SEEDS if kind == "zipf" else listed == 0
