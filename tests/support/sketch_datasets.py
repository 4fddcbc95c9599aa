"""Data sets for sketches, computed by Spark and, for exact results, by numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

KINDS = ("uniform", "zipf", "sequence", "prefix")
PREFIX = "https://example.org/the/same/long/path/of/every/page/"
PARTS = 5
_SPAN, _FIRST, _SECOND = 2**32, 1103515245, 747796405


def rows(spark: SparkSession, seeds: int, n: int) -> DataFrame:
    """Return n rows per kind and seed; columns: kind, seed, part, number, text.

    uniform and zipf (P(x > v) = 1 / sqrt(v)) repeat values; sequence and prefix are successive
    numbers without and with a long common prefix. Data sets do not share texts, so that their
    errors are independent."""
    at = F.col("id")
    seed = F.floor(at / n).cast("bigint")
    first = F.pmod(at * _FIRST, F.lit(_SPAN))
    mixed = F.pmod(first.bitwiseXOR(F.shiftright(first, 15)) * _SECOND, F.lit(_SPAN))
    rest = 1 - mixed / _SPAN
    numbers = {
        "uniform": F.floor(mixed / _SPAN * (4 * n)),
        "zipf": F.floor(1 / (rest * rest)),
        "sequence": at,
        "prefix": at,
    }

    def value_of(kind: str, number: Column) -> Column:
        text_prefix = {"sequence": F.lit(""), "prefix": F.lit(PREFIX)}.get(
            kind, F.concat(F.lit(f"{kind}-"), seed, F.lit("-"))
        )
        text = F.concat(text_prefix, number.cast("bigint"))
        return F.struct(
            F.lit(kind).alias("kind"), number.cast("bigint").alias("number"), text.alias("text")
        )

    value = F.explode(F.array(*[value_of(kind, number) for kind, number in numbers.items()])).alias(
        "value"
    )
    return (
        spark.range(seeds * n)
        .select(seed.alias("seed"), (mixed % PARTS).alias("part"), value)
        .select("value.kind", "seed", "part", "value.number", "value.text")
    )


def exact(seeds: int, n: int) -> dict[tuple[str, int], NDArray[np.int64]]:
    """Return the numbers of each data set, by kind and seed."""
    at = np.arange(seeds * n, dtype=np.int64)
    first = at * _FIRST % _SPAN
    mixed = (first ^ (first >> 15)) * _SECOND % _SPAN
    rest = 1 - mixed / _SPAN
    numbers = {
        "uniform": np.floor(mixed / _SPAN * (4 * n)),
        "zipf": np.floor(1 / (rest * rest)),
        "sequence": at,
        "prefix": at,
    }
    cut = {kind: number.astype(np.int64).reshape(seeds, n) for kind, number in numbers.items()}
    return {(kind, seed): cut[kind][seed] for kind in KINDS for seed in range(seeds)}


def number_of(text: str) -> int:
    """Return the number in a text."""
    return int(text.replace("/", "-").split("-")[-1])


def rank_distance(values: NDArray[np.int64], answer: float, at: float) -> float:
    """Return the distance of `at` to the rank interval of the answer among the values."""
    return max(float((values < answer).mean()) - at, at - float((values <= answer).mean()), 0.0)
