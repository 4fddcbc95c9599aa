"""Quantiles by KLL sketches, with the Apache DataSketches library of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from math import pow

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import as_column
from ..errors import ArgumentError
from ..versions import is_spark_at_least, require_spark
from ._envelope import compute_once, decode_sketch, encode_sketch

KIND = "quantile"
MIN_K = 8
MAX_K = 65_535


def approx_quantile(
    value: str | Column, probabilities: float | Sequence[float], *, k: int = 200
) -> Aggregate:
    """Return approximate quantiles of a numeric column, by a KLL sketch.

    The quantile of a rank is the smallest value of at least this rank. The result is a double, or
    an array of doubles if `probabilities` is a list; null without values. It is exact for up to k
    values. Beyond that, the error of its rank is at most `rank_error(k)` with a probability of 99
    %: with k = 200, p99 is between p97.67 and p100. The sketch is randomized: two runs over the
    same events, or a stream and a batch, can differ within this error. A partial takes 72 bytes to
    some 20 * k bytes.

    Nulls and NaN are ignored; infinities are values. Integers and decimals are rounded to doubles,
    which is exact up to 2^53. Convert times and durations to numbers, for example by
    `F.unix_micros`. Merging sketches of different k is an error.

    Args:
        value: the column, a number.
        probabilities: the rank, from 0 (minimum) to 1 (maximum), or a list of ranks.
        k: 8 to 65535; the error is nearly proportional to 1 / k.

    Raises:
        ArgumentError: for `probabilities` or `k` out of range.
        SetupError: for a Spark older than 4.1.

    Source: Karnin, Lang, Liberty, Optimal Quantile Approximation in Streams (2016).

    >>> from tidegate.windows import tumbling
    >>> aggs = {"ms": approx_quantile("ms", [0.5, 0.99])}
    >>> tumbling(clicks, "1 minute", aggs=aggs).head().ms
    [4.0, 8.0]
    """
    require_spark("4.1", "approx_quantile")
    label = f"{KIND} k={_require_k(k)}"
    _require_probabilities(probabilities)

    def partial(time: Column) -> Column:
        numbers = as_column(value).cast("double")
        return encode_sketch(F.kll_sketch_agg_double(numbers, F.lit(k)), label)

    def merge(partials: Column) -> Column:
        union = _union(decode_sketch(partials, label), k)
        return F.when(F.count(partials) > 0, encode_sketch(union, label))

    def finish(partial: Column) -> Column:
        decoded = decode_sketch(partial, label)
        return compute_once(decoded, lambda sketch: _quantile(sketch, probabilities))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=finish,
        inputs=((value, "number"),),
        plan_name="approx_quantile",
        plan_arguments={"value": value, "probabilities": probabilities, "k": k},
    )


def _union(sketches: Column, k: int) -> Column:
    """Return the union of a group's sketches of one k.

    Spark 4.1 merges two sketches only, so that all sketches of a group are in memory at once.
    """
    if is_spark_at_least("4.2"):
        return F.kll_merge_agg_double(sketches, F.lit(k))
    return compute_once(
        F.collect_list(sketches),
        lambda group: F.reduce(
            F.slice(group, 2, F.size(group)), F.get(group, F.lit(0)), F.kll_sketch_merge_double
        ),
    )


def rank_error(k: int = 200) -> float:
    """Return the maximum rank error of `approx_quantile`, with 99 % confidence.

    The error is a fraction of all values: 0.0193 with k = 200.

    Raises:
        ArgumentError: for k out of range.

    Source: Apache DataSketches, KLL sketch: 2.296 / k^0.9021, fitted to measurements.

    >>> round(rank_error(200), 4)
    0.0193
    """
    return 2.296 / pow(_require_k(k), 0.9021)


def quantile_bounds(stored: str | Column, probability: float, *, k: int = 200) -> Column:
    """Return a quantile of a stored KLL sketch with its confidence interval.

    The result is a struct of `low`, `estimate` and `high`, all doubles. Low and high are the
    quantiles at `probability` minus and plus `rank_error(k)`; the true quantile is between them
    with a probability of 99 %. Null without values.

    Raises:
        ArgumentError: for `probability` or `k` out of range.
        SetupError: for a Spark older than 4.1.

    >>> durations = approx_quantile("ms", 0.5).partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(durations.alias("ms"))
    >>> stored.select(quantile_bounds("ms", 0.5).alias("ms")).select("ms.*").head()
    Row(low=4.0, estimate=4.0, high=4.0)
    """
    require_spark("4.1", "quantile_bounds")
    _require_probabilities(probability)
    error = rank_error(k)

    ranks = {
        "low": max(0.0, probability - error),
        "estimate": float(probability),
        "high": min(1.0, probability + error),
    }

    def bounds(sketch: Column) -> Column:
        quantiles = [
            F.kll_sketch_get_quantile_double(sketch, F.lit(rank)).alias(name)
            for name, rank in ranks.items()
        ]
        return _unless_empty(sketch, F.struct(*quantiles))

    return compute_once(decode_sketch(as_column(stored, "stored"), f"{KIND} k={k}"), bounds)


def _quantile(sketch: Column, probabilities: float | Sequence[float]) -> Column:
    if isinstance(probabilities, int | float):
        ranks = F.lit(float(probabilities))
    else:
        ranks = F.array(*[F.lit(float(rank)) for rank in probabilities])
    return _unless_empty(sketch, F.kll_sketch_get_quantile_double(sketch, ranks))


def _unless_empty(sketch: Column, result: Column) -> Column:
    """Return the result, or null for an empty sketch."""
    return F.when(F.kll_sketch_get_n_double(sketch) > 0, result)


def _require_probabilities(probabilities: float | Sequence[float]) -> None:
    ranks: Sequence[object] = [probabilities]
    if isinstance(probabilities, Sequence) and not isinstance(probabilities, str):
        ranks = probabilities
    if not ranks or not all(isinstance(rank, int | float) and 0 <= rank <= 1 for rank in ranks):
        raise ArgumentError(
            f"invalid probabilities: {probabilities!r}",
            "a number from 0 to 1, or a list of such numbers",
            "probabilities=[0.5, 0.99]",
        )


def _require_k(k: int) -> int:
    if not MIN_K <= k <= MAX_K:
        raise ArgumentError(f"invalid k: {k!r}", f"{MIN_K} to {MAX_K}", "k=200")
    return k
