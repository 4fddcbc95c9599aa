"""The arithmetic of a comparison: from the values of the past to a verdict."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from .deviation import Deviation

ALARM = "alarm"
ORDINARY = "ordinary"
TOO_LITTLE = "too little history"
NO_VALUE = "no value"
NO_RATIO = "no ratio"

_OF_MEDIAN = 1.4826
_OF_MEAN = 1.2533


def median(values: Column) -> Column:
    """Return the median of an array of doubles, the mean of the middle two where they are even.

    Null for an empty array.
    """
    ordered = F.array_sort(values)
    size = F.size(values)
    low = F.get(ordered, F.floor((size - F.lit(1)) / F.lit(2)).cast("int"))
    high = F.get(ordered, F.floor(size / F.lit(2)).cast("int"))
    return F.when(size > 0, low / F.lit(2) + high / F.lit(2))


def mean(values: Column) -> Column:
    """Return the mean of an array of doubles; null for an empty array."""
    total = F.aggregate(values, F.lit(0.0), lambda sum_, each: sum_ + each)
    return F.when(F.size(values) > 0, total / F.size(values))


def scale(values: Column, centre: Column) -> Column:
    """Return the standard deviation that the values' distances from their median stand for."""
    distances = F.transform(values, lambda each: F.abs(each - centre))
    robust = median(distances) * F.lit(_OF_MEDIAN)
    return F.when(robust > 0, robust).otherwise(mean(distances) * F.lit(_OF_MEAN))


def finite(value: Column) -> Column:
    """Return a number as a double; null for what is no finite number."""
    number = value.cast("double")
    return F.when(F.abs(number) < F.lit(float("inf")), number)


def evidence(rule: Deviation, value: Column, values: Column) -> dict[str, Column]:
    """Return the columns of a comparison of a value with an array of values, by name."""
    baseline = median(values) if rule.baseline == "median" else mean(values)
    spread = scale(values, baseline)
    deviation = value - baseline
    both = (value >= 0) & (baseline >= 0)
    return {
        "value": value,
        "baseline": baseline,
        "deviation": deviation,
        "ratio": F.when(both & (baseline > 0), value / baseline),
        "robust_z": F.when(F.lit(rule.baseline == "median") & (spread > 0), deviation / spread),
        "verdict": F.when(value.isNull(), NO_VALUE)
        .when(F.size(values) < rule.least, TOO_LITTLE)
        .when(F.lit(rule.ratio is not None) & ~both, NO_RATIO)
        .when(_reached(rule, value, baseline, spread), ALARM)
        .otherwise(ORDINARY),
    }


def _reached(rule: Deviation, value: Column, baseline: Column, spread: Column) -> Column:
    """Return whether a value is beyond the limits of a rule, in its direction."""
    deviation = value - baseline
    ways = {"either": deviation != 0, "above": deviation > 0, "below": deviation < 0}
    reached = [ways[rule.direction]]
    if rule.absolute is not None:
        reached.append(F.abs(deviation) >= F.lit(float(rule.absolute)))
    if rule.ratio is not None:
        factor = F.lit(float(rule.ratio))
        larger = F.greatest(value, baseline)
        smaller = F.least(value, baseline)
        reached.append(larger >= factor * smaller)
    if rule.robust_z is not None:
        reached.append(F.abs(deviation) >= F.lit(float(rule.robust_z)) * spread)
    return reduce(and_, reached)
