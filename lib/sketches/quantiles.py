"""Quantiles by KLL: Spark's own sketches of the Apache DataSketches family, in a checked
envelope."""

from __future__ import annotations

from collections.abc import Sequence
from math import pow

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from ..errors import ArgumentError
from .stored import once, opened, sealed

KIND = "quantile"
LEAST_K, MOST_K = 8, 65_535


def quantile(value: str | Column, at: float | Sequence[float], *, k: int = 200) -> Aggregate:
    """Find quantiles of a number, approximately: the least value seen whose rank is at least `at`.

    A double, or an array of doubles where `at` is a list; null where there is no value. Of up to k
    values the answer is exact. Past that its rank is off by at most `rank_error(k)` in 99 of 100
    cases: with k = 200, p99 is between p97.67 and p100. Then the sketch tosses coins, so two runs
    over the same events differ, within that error; so do a stream and its batch. A partial takes 72
    bytes, and some 20 k where there are many values.

    Nulls and NaN are left out; infinities take part. Whole numbers and decimals are rounded to
    doubles, which is exact up to 2^53. Take the quantile of a time of day or a duration as a
    number, `F.unix_micros` for one. Sketches of different k do not merge; that is an error.

    Args:
        value: the column, a number.
        at: from 0 (the least value) to 1 (the greatest), or a list of such.
        k: 8 to 65535; the error falls nearly as 1 / k.

    Raises:
        ArgumentError: for `at` or k out of range.

    Source: Karnin, Lang, Liberty, Optimal Quantile Approximation in Streams (2016).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": quantile("ms", [0.5, 0.99])}).head().ms
    [4.0, 8.0]
    """
    label = f"{KIND} k={_k(k)}"
    _require_ranks(at)

    def partial(time: Column) -> Column:
        return sealed(F.kll_sketch_agg_double(column(value).cast("double"), F.lit(k)), label)

    def merge(partials: Column) -> Column:
        union = F.kll_merge_agg_double(opened(partials, label), F.lit(k))
        return F.when(F.count(partials) > 0, sealed(union, label))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=lambda partial: once(opened(partial, label), lambda sketch: _quantile(sketch, at)),
        inputs=((value, "number"),),
    )


def rank_error(k: int = 200) -> float:
    """Return how far a quantile's rank is off, at most, in 99 of 100 cases, as a share of all values.

    Source: Apache DataSketches, KLL sketch, which fitted 2.296 / k^0.9021 to measurements.

    >>> round(rank_error(200), 4)
    0.0193
    """
    return 2.296 / pow(_k(k), 0.9021)


def quantile_bounds(stored: str | Column, at: float, *, k: int = 200) -> Column:
    """Return a stored partial's quantile with its bounds, as a struct of low, estimate and high (double).

    The true quantile is between low and high, the quantiles at `at` minus and plus `rank_error(k)`,
    in 99 of 100 cases. Null where there is no value.

    >>> minutes = clicks.groupBy().agg(quantile("ms", 0.5).partial(F.col("event_time")).alias("ms"))
    >>> minutes.select(quantile_bounds("ms", 0.5).alias("ms")).select("ms.*").head()
    Row(low=4.0, estimate=4.0, high=4.0)
    """
    _require_ranks(at)
    error = rank_error(k)
    ends = {"low": max(0.0, at - error), "estimate": float(at), "high": min(1.0, at + error)}

    def bounds(sketch: Column) -> Column:
        made = F.struct(
            *[
                F.kll_sketch_get_quantile_double(sketch, F.lit(end)).alias(n)
                for n, end in ends.items()
            ]
        )
        return F.when(F.kll_sketch_get_n_double(sketch) > 0, made)

    return once(opened(column(stored), f"{KIND} k={k}"), bounds)


def _quantile(sketch: Column, at: float | Sequence[float]) -> Column:
    ranks = (
        F.lit(float(at))
        if isinstance(at, int | float)
        else F.array(*[F.lit(float(rank)) for rank in at])
    )
    return F.when(
        F.kll_sketch_get_n_double(sketch) > 0, F.kll_sketch_get_quantile_double(sketch, ranks)
    )


def _require_ranks(at: float | Sequence[float]) -> None:
    ranks = [at] if isinstance(at, int | float) else list(at)
    if not ranks or not all(isinstance(rank, int | float) and 0 <= rank <= 1 for rank in ranks):
        raise ArgumentError(
            f"at is {at!r}.", "a number from 0 to 1, or a list of such.", "at=[0.5, 0.99]"
        )


def _k(k: int) -> int:
    if not LEAST_K <= k <= MOST_K:
        raise ArgumentError(f"k is {k}.", f"{LEAST_K} to {MOST_K}.", "k=200")
    return k
