"""Where a series of numbers steps from one level to another: Spark expressions over arrays."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def steps(offsets: Column, step: int, messages: int) -> Column:
    """Return the indices at which a level begins, the first of them 0.

    A level begins where the medians of the `messages` before and from there on differ by more than
    `step`, while on both sides half of the numbers agree with their median within half a `step`.
    """
    size = F.size(offsets)
    first = F.lit(messages)
    last = F.greatest(size - F.lit(messages), first)
    places = F.sequence(first, last)
    # One transform after another lets the medians be worked out once for each place.
    sides = F.transform(places, lambda at: _sides(offsets, at, messages))
    known = F.transform(sides, _with_medians)
    found = F.filter(known, lambda side: _is_step(offsets, side, step))["at"]
    none = F.array().cast("array<int>")
    enough = size >= F.lit(2 * messages)
    return F.concat(F.array(F.lit(0)), F.when(enough, found).otherwise(none))


def _sides(offsets: Column, at: Column, messages: int) -> Column:
    """Return a place with the numbers before it and those from there on."""
    before = F.slice(offsets, at - F.lit(messages - 1), F.lit(messages))
    after = F.slice(offsets, at + F.lit(1), F.lit(messages))
    return F.struct(at.alias("at"), before.alias("before"), after.alias("after"))


def _with_medians(side: Column) -> Column:
    old = median(side["before"])
    new = median(side["after"])
    return side.withField("old", old).withField("new", new)


def _is_step(offsets: Column, side: Column, step: int) -> Column:
    old = side["old"]
    new = side["new"]
    farthest = F.greatest(_spread(side["before"], old), _spread(side["after"], new))
    agree = farthest * F.lit(2) <= F.lit(step)
    # Places near a step have it among their numbers too: only at the step itself does the number
    # before belong to the old level, and the number there to the new one.
    last = F.get(offsets, side["at"] - F.lit(1))
    own = F.get(offsets, side["at"])
    turned = (F.abs(last - old) < F.abs(last - new)) & (F.abs(own - new) < F.abs(own - old))
    return (F.abs(new - old) > F.lit(step)) & agree & turned


def levels(pairs: Column, cuts: Column) -> Column:
    """Return the levels between the cuts: their pairs, and the times at which each begins and ends.

    The time at an outer end is null.
    """

    def level(cut: Column, index: Column) -> Column:
        following = F.get(cuts, index + F.lit(1))
        stop = F.coalesce(following, F.size(pairs))
        return F.struct(
            F.slice(pairs, cut + F.lit(1), stop - cut).alias("pairs"),
            F.when(cut > F.lit(0), F.get(pairs, cut)["received"]).alias("from"),
            F.get(pairs, following)["received"].alias("to"),
        )

    return F.transform(cuts, level)


def median(values: Column) -> Column:
    """Return the number in the middle, the lower of two."""
    middle = F.shiftright(F.size(values) - F.lit(1), 1)
    return F.get(F.sort_array(values), middle)


def _spread(values: Column, middle: Column) -> Column:
    return median(F.transform(values, lambda value: F.abs(value - middle)))
