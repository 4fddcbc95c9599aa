"""Quantiles by KLL: Spark's own Apache DataSketches, in a checked envelope."""

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
LEAST_K = 8
MOST_K = 65_535


def quantile(value: str | Column, at: float | Sequence[float], *, k: int = 200) -> Aggregate:
    """Find quantiles of a number, approximately: the least value whose rank is at least `at`.

    A double, or an array of doubles where `at` is a list; null where there is no value. Of up to k
    values the answer is exact. Past that its rank is off by at most `rank_error(k)` in 99 of 100
    cases: with k = 200, p99 is between p97.67 and p100. Past that, too, the sketch tosses coins:
    two runs over the same events differ within that error, and so do a stream and its batch. A
    partial takes 72 bytes, and some 20 k where there are many values.

    Nulls and NaN are left out; infinities take part. Whole numbers and decimals are rounded to
    doubles, which is exact up to 2^53. Take the quantile of a time of day or a duration as a
    number, `F.unix_micros` for one. Merging sketches of different k is an error.

    Args:
        value: the column, a number.
        at: the rank, from 0 (the least value) to 1 (the greatest), or a list of ranks.
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
    """Return how far a quantile's rank is off, at most, in 99 of 100 cases.

    The error is a share of all values: 0.0193 with k = 200.

    Raises:
        ArgumentError: for k out of range.

    Source: Apache DataSketches, KLL sketch, which fitted 2.296 / k^0.9021 to measurements.

    >>> round(rank_error(200), 4)
    0.0193
    """
    return 2.296 / pow(_k(k), 0.9021)


def quantile_bounds(stored: str | Column, at: float, *, k: int = 200) -> Column:
    """Return a stored partial's quantile with its bounds, as a struct of low, estimate and high.

    All three are doubles. Low and high are the quantiles at `at` minus and plus `rank_error(k)`:
    the true quantile is between them in 99 of 100 cases. Null where there is no value.

    Raises:
        ArgumentError: for `at` or k out of range.

    >>> minutes = clicks.groupBy().agg(quantile("ms", 0.5).partial(F.col("event_time")).alias("ms"))
    >>> minutes.select(quantile_bounds("ms", 0.5).alias("ms")).select("ms.*").head()
    Row(low=4.0, estimate=4.0, high=4.0)
    """
    _require_ranks(at)
    error = rank_error(k)

    def bounds(sketch: Column) -> Column:
        made = F.struct(
            F.kll_sketch_get_quantile_double(sketch, F.lit(max(0.0, at - error))).alias("low"),
            F.kll_sketch_get_quantile_double(sketch, F.lit(float(at))).alias("estimate"),
            F.kll_sketch_get_quantile_double(sketch, F.lit(min(1.0, at + error))).alias("high"),
        )
        return _where_any(sketch, made)

    return once(opened(column(stored), f"{KIND} k={k}"), bounds)


def _quantile(sketch: Column, at: float | Sequence[float]) -> Column:
    if isinstance(at, int | float):
        ranks = F.lit(float(at))
    else:
        ranks = F.array(*[F.lit(float(rank)) for rank in at])
    return _where_any(sketch, F.kll_sketch_get_quantile_double(sketch, ranks))


def _where_any(sketch: Column, answer: Column) -> Column:
    """Return the answer, or null for a sketch of no values."""
    return F.when(F.kll_sketch_get_n_double(sketch) > 0, answer)


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
