"""Sets by theta sketches: distinct counts of unions, intersections and differences, afterwards."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from ..errors import ArgumentError
from ._bounds import require_deviations, unsigned
from .hyperloglog import hashed
from .stored import once, opened, sealed

KIND = "theta"
LEAST_PRECISION = 4
MOST_PRECISION = 20
# The first two bytes of the layouts that say theta: how many words of 8 bytes stand in front of
# the values, and the version of the layout.
_COMPRESSED = "0204"
_UNCOMPRESSED = "0303"


def theta(value: str | Column, *, precision: int = 12) -> Aggregate:
    """Count the different values that are not null, by a sketch for operations on sets.

    A bigint; 0 where there is none. `union`, `intersection` and `difference` combine stored
    partials. Up to 2^precision values the count is exact; past that the relative standard error is
    1 / sqrt(2^precision - 1): 1.6 % at 12. A partial takes 72 bytes, and some 7 * 2^precision where
    there are many values; where only unions are asked for, `distinct` has the same error in an
    eighth of the bytes. The answer depends on the values alone, not on their order or on how
    partials were merged.

    Values are hashed as `distinct` hashes them: of any type but maps and variants, and of one type
    in all sketches that are combined. Merging sketches of different precision is an error.

    Args:
        value: the column, or an expression of the events' columns.
        precision: 4 to 20; each step more halves the variance and doubles the size.

    Raises:
        ArgumentError: for another precision.

    Source: Dasgupta et al., A Framework for Estimating Stream Expression Cardinalities (2016).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": theta("user")}).head().users
    2
    """
    label = _label(precision)

    def merge(partials: Column) -> Column:
        merged = F.theta_union_agg(opened(partials, label), precision)
        return F.when(F.count(partials) > 0, sealed(merged, label))

    return Aggregate(
        partial=lambda time: sealed(F.theta_sketch_agg(hashed(value), precision), label),
        merge=merge,
        finish=lambda partial: F.theta_sketch_estimate(opened(partial, label)),
        inputs=((value, "any"),),
    )


def union(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the stored sketch of the values that are in left or right.

    Both are stored partials of `theta`, or combinations of them; null where either is null. An
    error, when the query runs, for a sketch of another precision.
    """
    return _combined(lambda a, b: F.theta_union(a, b, precision), left, right, precision)


def intersection(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the stored sketch of the values that are in both left and right.

    Takes what `union` takes. The error is relative to the union: where few of many values are
    common, ask `theta_bounds` how little is known.

    >>> of = lambda page: theta(F.when(F.col("page") == page, F.col("ms"))).partial(F.lit(None))
    >>> seen = clicks.groupBy().agg(of("/0").alias("first"), of("/1").alias("second"))
    >>> seen.select(theta_estimate(union("first", "second"))).head()[0]
    6
    >>> seen.select(theta_estimate(intersection("first", "second"))).head()[0]
    0
    """
    return _combined(F.theta_intersection, left, right, precision)


def difference(left: str | Column, right: str | Column, *, precision: int = 12) -> Column:
    """Return the stored sketch of the values that are in left and not in right.

    Takes what `union` takes.
    """
    return _combined(F.theta_difference, left, right, precision)


def theta_estimate(stored: str | Column) -> Column:
    """Return the distinct count of a stored sketch of any precision, as a bigint.

    The sketch is a partial of `theta`, or a combination of partials; null where it is null.
    """
    return F.theta_sketch_estimate(opened(column(stored), KIND))


def theta_bounds(stored: str | Column, *, deviations: int = 2) -> Column:
    """Return a stored sketch's count with its bounds, as a struct of low, estimate and high.

    All three are bigint. The true count is within 1, 2 or 3 standard errors (`deviations`) of the
    estimate in some 68, 95 or 99.7 of 100 cases. A sketch holds each value with the same chance, so
    that what it holds is a binomial sample: the bounds are the sample's score interval, which says
    something of empty sets too.

    Raises:
        ArgumentError: for other deviations.

    Source: Wilson, Probable Inference (1927).
    """
    require_deviations(deviations)

    def bounds(sketch: Column) -> Column:
        estimate = F.theta_sketch_estimate(sketch)
        low, high = _score_interval(estimate, _chance(sketch), deviations)
        made = F.struct(
            low.cast("bigint").alias("low"),
            estimate.cast("bigint").alias("estimate"),
            high.cast("bigint").alias("high"),
        )
        return F.when(sketch.isNotNull(), made)

    return once(opened(column(stored), KIND), bounds)


def _score_interval(estimate: Column, chance: Column, deviations: int) -> tuple[Column, Column]:
    """Return the ends of Wilson's interval, for a sample that holds each value with `chance`.

    With h values held and z deviations, the ends are the n for which (h - n * chance)^2 is
    z^2 * n * chance * (1 - chance).
    """
    held = F.round(estimate * chance)
    spread = deviations**2 * (1 - chance)
    middle = 2 * held + spread
    reach = F.sqrt(spread * spread + 4 * held * spread)
    # There are at least as many values as are held.
    low = F.greatest(held, F.floor((middle - reach) / (2 * chance)))
    high = F.ceil((middle + reach) / (2 * chance))
    return low, high


def _combined(
    made: Callable[[Column, Column], Column],
    left: str | Column,
    right: str | Column,
    precision: int,
) -> Column:
    label = _label(precision)
    return sealed(made(opened(column(left), label), opened(column(right), label)), label)


def _chance(sketch: Column) -> Column:
    """Return theta, the chance of a value to be held; 1 in the layouts that do not say it."""
    layout = F.hex(F.substring(sketch, 1, 2))
    theta_of_63_bits = (
        F.when(layout == _COMPRESSED, unsigned(sketch, 9, 16))
        .when(layout == _UNCOMPRESSED, unsigned(sketch, 17, 24))
        .cast("double")
    )
    return F.coalesce(theta_of_63_bits / F.lit(2.0**63), F.lit(1.0))


def _label(precision: int) -> str:
    if not LEAST_PRECISION <= precision <= MOST_PRECISION:
        raise ArgumentError(
            f"precision is {precision}.", f"{LEAST_PRECISION} to {MOST_PRECISION}.", "precision=12"
        )
    return f"{KIND} precision={precision}"
