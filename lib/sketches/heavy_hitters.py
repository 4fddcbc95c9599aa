"""The most frequent values: Spark's own items sketch (`approx_top_k`), in a checked envelope."""

from __future__ import annotations

from math import ceil, log2

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from ..errors import ArgumentError
from .bounds import unsigned
from .stored import once, opened, sealed

KIND = "top"
MOST_CAPACITY = 1_000_000


def top(value: str | Column, n: int, *, capacity: int = 1_000) -> Aggregate:
    """Find the n most frequent values, with their counts; approximate where there are more than `capacity` of them.

    An array of structs: `value`, its `count`, and `error`: the value came at least count - error and at most count
    times. The most frequent first, of equally frequent ones the smallest first. While there were no more than
    `capacity` different values, counts are exact and error is 0. Past that the error is at most
    `count_error(capacity)` of all values that were counted; a value is listed only where it is surely more frequent
    than the error, so there may be fewer than n, and where no value stands out none. Which of two values that are
    closer than the error comes first may depend on the order of the rows.

    Nulls are not listed. Values are numbers (0.0 and -0.0 are two), text, booleans, dates and timestamps; take binary
    by `F.hex`, and others as text. A partial is a struct: `sketch`, binary, and `of`, a null that bears the values'
    type. It takes up to some 2 * capacity times the size of a value and 8 bytes; past 16 MiB it is an error. Sketches
    of different capacity or type do not merge; that is an error. Merge by a key, as windows, `merged` with `by` and
    `Upsert` do: Spark's merge fails in an aggregation without groups where a task has no rows.

    Args:
        value: the column.
        n: how many values, at least one.
        capacity: how many different values are counted, n to 1,000,000.

    Raises:
        ArgumentError: for n or capacity out of range.

    Source: Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in Data Streams (2017).

    >>> from lib.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": top("user", 1)}).head().users
    [Row(value='u0', count=5, error=0)]
    """
    if n < 1 or not n <= capacity <= MOST_CAPACITY:
        raise ArgumentError(f"n is {n} and capacity {capacity}.", f"1 <= n <= capacity <= {MOST_CAPACITY}.")
    given = column(value)

    def stored(state: Column) -> Column:
        made = sealed(state["sketch"], _label(capacity, state["itemDataType"]))
        return F.struct(made.alias("sketch"), state["itemDataType"].alias("of"))

    def state(partial: Column) -> Column:
        """Give the struct that Spark's functions take; an empty sketch for null."""
        sketch = opened(partial["sketch"], _label(capacity, partial["of"]))
        kind = F.concat(F.lit("item "), F.typeof(partial["of"]), F.lit(" not null"))
        return F.struct(
            F.coalesce(sketch, F.lit(_EMPTY)).alias("sketch"),
            F.lit(capacity).alias("maxItemsTracked"),
            partial["of"].alias("itemDataType"),
            kind.alias("itemDataTypeDDL"),
        )

    def merge(partials: Column) -> Column:
        combined = F.call_function("approx_top_k_combine", state(partials), F.lit(capacity))
        return F.when(F.count(partials) > 0, stored(combined))

    def finish(partial: Column) -> Column:
        found = F.call_function("approx_top_k_estimate", state(partial), F.lit(capacity))
        known = F.filter(found, lambda item: item["item"].isNotNull())
        ranked = F.transform(known, lambda item: F.struct((-item["count"]).alias("less"), item["item"].alias("value")))
        first = F.slice(F.sort_array(ranked), 1, n)
        error = once(opened(partial["sketch"], KIND), lambda sketch: unsigned(sketch, *_ERROR_AT).cast("bigint"))
        answer = once(F.coalesce(error, F.lit(0)), lambda error: F.transform(first, lambda one: _counted(one, error)))
        return F.when(partial["sketch"].isNotNull(), answer)

    return Aggregate(
        partial=lambda time: stored(F.call_function("approx_top_k_accumulate", given, F.lit(capacity))),
        merge=merge,
        finish=finish,
        inputs=((value, "any"),),
    )


def count_error(capacity: int) -> float:
    """Give how far a count is off, at most, as a share of all values counted.

    Source: Apache DataSketches, frequent items: 3.5 / (size of the map), the power of two that holds 4/3 of `capacity`.

    >>> round(count_error(1_000), 5)
    0.00171
    """
    return 3.5 / (1 << ceil(log2(ceil(capacity / 0.75))))


# An empty sketch: length and version of its head, family, sizes as powers of two, "empty"; then the count of nulls.
_EMPTY = bytes([1, 1, 10, 8, 3, 5]).ljust(16, b"\0")
_ERROR_AT = (25, 32)


def _counted(ranked: Column, error: Column) -> Column:
    return F.struct(ranked["value"].alias("value"), (-ranked["less"]).alias("count"), error.alias("error"))


def _label(capacity: int, of: Column) -> Column:
    return F.concat(F.lit(f"{KIND} capacity={capacity} of="), F.typeof(of))
