"""Distinct counts by HyperLogLog: Spark's own Apache DataSketches, in a checked envelope."""

from __future__ import annotations

from math import log, sqrt

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column, require_whole
from ._bounds import require_deviations, unsigned
from .stored import once, opened, sealed

KIND = "distinct"
LEAST_PRECISION = 4
MOST_PRECISION = 21
# The standard error of a count from registers, times sqrt(2^precision).
_REGISTERS_ERROR = sqrt(3 * log(2) - 1)
# The standard error of a count from the 26-bit hashes that a sketch of few values holds.
_HASHES_ERROR = 0.409 / 2**13
# Bytes of DataSketches' HLL layout, counted from 1.
_PRECISION_BYTE = 4
_FLAGS_BYTE = 6
_MODE_BYTE = 8
_HAS_REGISTERS = b"\x0a"
_OUT_OF_ORDER = b"\x10"


def distinct(value: str | Column, *, precision: int = 12) -> Aggregate:
    """Count the different values that are not null, approximately.

    A bigint; 0 where there is none. The relative standard error is 1.039 / sqrt(2^precision): 1.6 %
    at 12, 0.8 % at 14. While there are few values (9 in 100 of 2^precision, or seven where
    precision is below 8), it is 0.005 %. The answer depends on the values alone, not on their order
    or on how partials were merged. A partial takes 104 bytes to 2^precision + 104 bytes, growing
    with the values.

    Values may be of every type that `F.xxhash64` takes (all but maps and variants). The empty text
    and NaN are values as any other; 0.0 and -0.0 are one. Nulls inside a struct or an array are
    passed over, so that ('a', null) and (null, 'a') count as one: take `F.to_json` of such values
    where that matters. Equal numbers of different types, such as 1 as int and as bigint, are two
    values: sketches that are merged must be of one type. Merging sketches of different precision is
    an error.

    Args:
        value: the column, or an expression of the events' columns.
        precision: 4 to 21; each step more halves the variance and doubles the size.

    Raises:
        ArgumentError: for another precision.

    Source: Flajolet et al., HyperLogLog (2007); errors as in Apache DataSketches, HLL sketch
    (`HllEstimators`).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": distinct("user")}).head().users
    2
    """
    require_whole(precision, "precision", LEAST_PRECISION, MOST_PRECISION, "precision=12")
    label = f"{KIND} precision={precision}"

    def partial(time: Column) -> Column:
        return sealed(_unordered(F.hll_sketch_agg(hashed(value), precision)), label)

    def merge(partials: Column) -> Column:
        union = F.hll_union_agg(opened(partials, label))
        # Of no sketch at all Spark makes one of its own default precision.
        return F.when(F.count(partials) > 0, sealed(_unordered(union), label))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=lambda partial: F.hll_sketch_estimate(opened(partial, label)),
        inputs=((value, "any"),),
    )


def distinct_estimate(stored: str | Column) -> Column:
    """Return the distinct count of a stored partial of `distinct`, of any precision, as a bigint.

    Null where there is no partial. An error, when the query runs, for bytes that are no sound
    sketch.
    """
    return F.hll_sketch_estimate(opened(column(stored), KIND))


def distinct_bounds(stored: str | Column, *, deviations: int = 2) -> Column:
    """Return a stored partial's count with its bounds, as a struct of low, estimate and high.

    All three are bigint. The true count is within 1, 2 or 3 standard errors (`deviations`) of the
    estimate in 68, 95 or 99.7 of 100 cases: from estimate / (1 + deviations * error) to
    estimate / (1 - deviations * error), with the error that `distinct` states.

    Raises:
        ArgumentError: for other deviations.

    >>> minutes = clicks.groupBy().agg(distinct("user").partial(F.col("event_time")).alias("users"))
    >>> minutes.select(distinct_bounds("users").alias("users")).select("users.*").head()
    Row(low=2, estimate=2, high=2)
    """
    require_deviations(deviations)

    def bounds(sketch: Column) -> Column:
        reach = F.lit(deviations) * _error(sketch)
        estimate = F.hll_sketch_estimate(sketch)
        made = F.struct(
            F.round(estimate / (1 + reach)).cast("bigint").alias("low"),
            estimate.cast("bigint").alias("estimate"),
            F.round(estimate / (1 - reach)).cast("bigint").alias("high"),
        )
        return F.when(sketch.isNotNull(), made)

    return once(opened(column(stored), KIND), bounds)


def hashed(value: str | Column) -> Column:
    """Return the 64-bit hash by which values of any type are counted; null for null.

    Spark would give null a hash too.
    """
    return F.when(column(value).isNotNull(), F.xxhash64(column(value)))


def _error(sketch: Column) -> Column:
    precision = unsigned(sketch, _PRECISION_BYTE, _PRECISION_BYTE).cast("int")
    of_registers = _REGISTERS_ERROR / F.sqrt(F.pow(F.lit(2), precision))
    return F.when(_has_registers(sketch), of_registers).otherwise(_HASHES_ERROR)


def _unordered(sketch: Column) -> Column:
    """Mark a sketch so that it is counted from its registers alone.

    A sketch also keeps a running estimate, a fifth closer, which depends on the order in which
    values came. The mark says that this estimate does not hold, as after a merge: so the answer
    depends on the values alone.
    """
    marked = F.overlay(sketch, F.lit(_OUT_OF_ORDER), _FLAGS_BYTE, 1)
    return F.when(_has_registers(sketch), marked).otherwise(sketch)


def _has_registers(sketch: Column) -> Column:
    return F.substring(sketch, _MODE_BYTE, 1) == F.lit(_HAS_REGISTERS)
