"""Distinct counts by HyperLogLog, with the Apache DataSketches library of Spark."""

from __future__ import annotations

from math import log, sqrt

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import as_column, require_integer
from ._envelope import count_bounds, decode_sketch, encode_sketch, read_unsigned

KIND = "distinct"
MIN_PRECISION = 4
MAX_PRECISION = 21
# The standard error of a count from registers, times sqrt(2^precision).
_REGISTERS_ERROR = sqrt(3 * log(2) - 1)
# The standard error of a count from the 26-bit hashes that a sketch of few values stores.
_HASHES_ERROR = 0.409 / 2**13
# 1-based positions in the HLL layout of DataSketches.
_PRECISION_BYTE = 4
_FLAGS_BYTE = 6
_MODE_BYTE = 8
_HAS_REGISTERS = b"\x0a"
_OUT_OF_ORDER = b"\x10"


def approx_count_distinct(value: str | Column, *, precision: int = 12) -> Aggregate:
    """Count the distinct non-null values approximately, by a HyperLogLog sketch.

    The result is a bigint. The relative standard error is 1.039 / sqrt(2^precision): 1.6 % at 12,
    0.8 % at 14; it is 0.005 % for few values (up to 9 % of 2^precision, or seven if precision is
    below 8). The result depends only on the values, not on their order or on how partials are
    merged. A partial takes 104 to 2^precision + 104 bytes, depending on the number of values.

    Values have any type that `F.xxhash64` accepts (all but maps and variants). The empty string and
    NaN count as values; 0.0 and -0.0 are equal. Nulls inside structs and arrays are ignored, so
    ('a', null) and (null, 'a') are equal; use `F.to_json` to distinguish them. Equal numbers of
    different types, such as 1 as int and as bigint, are distinct: merge only sketches of one type.
    Merging sketches of different precision is an error.

    Args:
        value: the column, or an expression of columns.
        precision: 4 to 21; each increment halves the variance and doubles the size.

    Raises:
        ArgumentError: for a precision out of range.

    Source: Flajolet et al., HyperLogLog (2007); errors as in Apache DataSketches, HLL sketch
    (`HllEstimators`).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": approx_count_distinct("user")}).head().users
    2
    """
    require_integer(precision, "precision", MIN_PRECISION, MAX_PRECISION, "precision=12")
    label = f"{KIND} precision={precision}"

    def partial(time: Column) -> Column:
        return encode_sketch(_mark_unordered(F.hll_sketch_agg(value_hash(value), precision)), label)

    def merge(partials: Column) -> Column:
        union = F.hll_union_agg(decode_sketch(partials, label))
        # Without any sketch, Spark returns an empty one of its default precision.
        return F.when(F.count(partials) > 0, encode_sketch(_mark_unordered(union), label))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=lambda partial: F.hll_sketch_estimate(decode_sketch(partial, label)),
        inputs=((value, "any"),),
        plan_name="approx_count_distinct",
        plan_arguments={"value": value, "precision": precision},
    )


def hll_estimate(stored: str | Column) -> Column:
    """Return the distinct count of a stored sketch of `approx_count_distinct`, as a bigint.

    Accepts any precision. Null for null. The query fails for bytes that are not a valid sketch.

    >>> users = approx_count_distinct("user").partial(F.col("event_time"))
    >>> clicks.groupBy().agg(users.alias("users")).select(hll_estimate("users")).head()[0]
    2
    """
    return F.hll_sketch_estimate(decode_sketch(as_column(stored, "stored"), KIND))


def hll_bounds(stored: str | Column, *, std_devs: int = 2) -> Column:
    """Return the distinct count of a stored HyperLogLog sketch with its confidence interval.

    The result is a struct of `low`, `estimate` and `high`, all bigint. The true count is between
    low and high with a probability of 68, 95 or 99.7 % for `std_devs` = 1, 2 or 3. The bounds are
    estimate / (1 + std_devs * error) and estimate / (1 - std_devs * error), with the standard error
    of `approx_count_distinct`.

    Raises:
        ArgumentError: unless `std_devs` is 1, 2 or 3.

    >>> users = approx_count_distinct("user").partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(hll_bounds("users").alias("users")).select("users.*").head()
    Row(low=2, estimate=2, high=2)
    """

    def interval(sketch: Column) -> tuple[Column, Column, Column]:
        margin = F.lit(std_devs) * _relative_error(sketch)
        estimate = F.hll_sketch_estimate(sketch)
        return F.round(estimate / (1 + margin)), estimate, F.round(estimate / (1 - margin))

    return count_bounds(stored, KIND, interval, std_devs)


def value_hash(value: str | Column) -> Column:
    """Return the 64-bit hash of a value of any hashable type; unlike `xxhash64`, null for null."""
    return F.when(as_column(value).isNotNull(), F.xxhash64(as_column(value)))


def _relative_error(sketch: Column) -> Column:
    precision = read_unsigned(sketch, _PRECISION_BYTE, _PRECISION_BYTE).cast("int")
    registers_error = _REGISTERS_ERROR / F.sqrt(F.pow(F.lit(2), precision))
    return F.when(_has_registers(sketch), registers_error).otherwise(_HASHES_ERROR)


def _mark_unordered(sketch: Column) -> Column:
    """Set the out-of-order flag, so that the estimate depends on the registers alone.

    A sketch also stores a running estimate, whose error is a fifth smaller but which depends on the
    order of the values. The flag, which merges set too, invalidates this estimate.
    """
    marked = F.overlay(sketch, F.lit(_OUT_OF_ORDER), _FLAGS_BYTE, 1)
    return F.when(_has_registers(sketch), marked).otherwise(sketch)


def _has_registers(sketch: Column) -> Column:
    return F.substring(sketch, _MODE_BYTE, 1) == F.lit(_HAS_REGISTERS)
