"""Distinct counts of unions, intersections and differences, by theta sketches."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import as_column
from ..errors import ArgumentError
from ..versions import require_spark
from ._envelope import count_bounds, decode_sketch, encode_sketch, read_unsigned
from .hyperloglog import value_hash

KIND = "theta"
MIN_PRECISION = 4
MAX_PRECISION = 20
# The first two bytes of the layouts that contain theta: the number of 8-byte words in the preamble,
# and the layout version.
_COMPRESSED = "0204"
_UNCOMPRESSED = "0303"


def theta_sketch(value: str | Column, *, precision: int = 12) -> Aggregate:
    """Count the distinct non-null values, by a sketch that supports set operations.

    The result is a bigint. `theta_union`, `theta_intersection` and `theta_difference` combine
    stored partials. The count is exact up to 2^precision values; beyond that, the relative standard
    error is 1 / sqrt(2^precision - 1): 1.6 % at 12. A partial takes 72 bytes to some
    7 * 2^precision bytes; for unions alone, `approx_count_distinct` has the same error with an
    eighth of the bytes. The result depends only on the values, not on their order or on how
    partials are merged.

    Values have any type but maps and variants, and the same type in all combined sketches, as in
    `approx_count_distinct`. Merging sketches of different precision is an error.

    Args:
        value: the column, or an expression of columns.
        precision: 4 to 20; each increment halves the variance and doubles the size.

    Raises:
        ArgumentError: for a precision out of range.
        SetupError: for a Spark older than 4.1.

    Source: Dasgupta et al., A Framework for Estimating Stream Expression Cardinalities (2016).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": theta_sketch("user")}).head().users
    2
    """
    require_spark("4.1", "theta_sketch")
    label = _label(precision)

    def merge(partials: Column) -> Column:
        merged = F.theta_union_agg(decode_sketch(partials, label), precision)
        return F.when(F.count(partials) > 0, encode_sketch(merged, label))

    return Aggregate(
        partial=lambda time: encode_sketch(F.theta_sketch_agg(value_hash(value), precision), label),
        merge=merge,
        finish=lambda partial: F.theta_sketch_estimate(decode_sketch(partial, label)),
        inputs=((value, "any"),),
        plan_name="theta_sketch",
        plan_arguments={"value": value, "precision": precision},
    )


def theta_union(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the Theta sketch of the values that are in `left` or `right`.

    Both are stored partials of `theta_sketch`, or combinations of them. Null if either is null. The
    query fails for a sketch of another precision.

    >>> users = theta_sketch("user").partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(theta_estimate(theta_union("users", "users"))).head()[0]
    2
    """
    require_spark("4.1", "theta_union")
    return _set_operation(lambda a, b: F.theta_union(a, b, precision), left, right, precision)


def theta_intersection(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the Theta sketch of the values that are in both `left` and `right`.

    Arguments and errors are those of `theta_union`. The error is relative to the union; for a small
    intersection of large sets, `theta_bounds` returns its uncertainty.

    >>> def sketch(page):
    ...     return theta_sketch(F.when(F.col("page") == page, F.col("ms"))).partial(F.lit(None))
    >>> stored = clicks.groupBy().agg(sketch("/0").alias("first"), sketch("/1").alias("second"))
    >>> stored.select(theta_estimate(theta_union("first", "second"))).head()[0]
    6
    >>> stored.select(theta_estimate(theta_intersection("first", "second"))).head()[0]
    0
    """
    require_spark("4.1", "theta_intersection")
    return _set_operation(F.theta_intersection, left, right, precision)


def theta_difference(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the Theta sketch of the values that are in `left` but not in `right`.

    Arguments and errors are those of `theta_union`.

    >>> users = theta_sketch("user").partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(theta_estimate(theta_difference("users", "users"))).head()[0]
    0
    """
    require_spark("4.1", "theta_difference")
    return _set_operation(F.theta_difference, left, right, precision)


def theta_estimate(stored: str | Column) -> Column:
    """Return the distinct count of a stored Theta sketch of any precision, as a bigint.

    The sketch is a partial of `theta_sketch`, or a combination of partials. Null for null.

    >>> users = theta_sketch("user").partial(F.col("event_time"))
    >>> clicks.groupBy().agg(users.alias("users")).select(theta_estimate("users")).head()[0]
    2
    """
    require_spark("4.1", "theta_estimate")
    return F.theta_sketch_estimate(decode_sketch(as_column(stored, "stored"), KIND))


def theta_bounds(stored: str | Column, *, std_devs: int = 2) -> Column:
    """Return the distinct count of a stored Theta sketch with its confidence interval.

    The result is a struct of `low`, `estimate` and `high`, all bigint. The true count is between
    low and high with a probability of some 68, 95 or 99.7 % for `std_devs` = 1, 2 or 3. A sketch is
    a binomial sample of the distinct values; the bounds are the score interval of this sample,
    which is meaningful for empty sets too.

    Raises:
        ArgumentError: unless `std_devs` is 1, 2 or 3.

    Source: Wilson, Probable Inference (1927).

    >>> users = theta_sketch("user").partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(theta_bounds("users").alias("users")).select("users.*").head()
    Row(low=2, estimate=2, high=2)
    """
    require_spark("4.1", "theta_bounds")
    return count_bounds(stored, KIND, lambda sketch: _score_interval(sketch, std_devs), std_devs)


def _score_interval(sketch: Column, std_devs: int) -> tuple[Column, Column, Column]:
    """Return the lower bound, the estimate and the upper bound of Wilson's interval.

    With h sampled values, rate p and z standard deviations, the bounds are the solutions n of
    (h - n * p)^2 = z^2 * n * p * (1 - p).
    """
    estimate = F.theta_sketch_estimate(sketch)
    sampling_rate = _sampling_rate(sketch)
    sampled = F.round(estimate * sampling_rate)
    spread = std_devs**2 * (1 - sampling_rate)
    middle = 2 * sampled + spread
    margin = F.sqrt(spread * spread + 4 * sampled * spread)
    # The true count is at least the number of sampled values.
    low = F.greatest(sampled, F.floor((middle - margin) / (2 * sampling_rate)))
    high = F.ceil((middle + margin) / (2 * sampling_rate))
    return low, estimate, high


def _set_operation(
    operation: Callable[[Column, Column], Column],
    left: str | Column,
    right: str | Column,
    precision: int,
) -> Column:
    label = _label(precision)
    sketches = [decode_sketch(as_column(stored, "stored"), label) for stored in (left, right)]
    return encode_sketch(operation(*sketches), label)


def _sampling_rate(sketch: Column) -> Column:
    """Return theta, the sampling probability; 1 for layouts that do not contain it."""
    layout = F.hex(F.substring(sketch, 1, 2))
    theta_of_63_bits = (
        F.when(layout == _COMPRESSED, read_unsigned(sketch, 9, 16))
        .when(layout == _UNCOMPRESSED, read_unsigned(sketch, 17, 24))
        .cast("double")
    )
    return F.coalesce(theta_of_63_bits / F.lit(2.0**63), F.lit(1.0))


def _label(precision: int) -> str:
    if not MIN_PRECISION <= precision <= MAX_PRECISION:
        raise ArgumentError(
            f"invalid precision: {precision!r}",
            f"{MIN_PRECISION} to {MAX_PRECISION}",
            "precision=12",
        )
    return f"{KIND} precision={precision}"
