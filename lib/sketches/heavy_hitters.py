"""The most frequent values: Spark's own items sketch (`approx_top_k`), in a checked envelope."""

from __future__ import annotations

from math import ceil, log2

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column, require_whole
from ..errors import ArgumentError
from ._bounds import unsigned
from .stored import LARGEST, once, opened, sealed

KIND = "top"
MOST_CAPACITY = 999_999


def top(value: str | Column, n: int, *, capacity: int = 1_000) -> Aggregate:
    """Find the n most frequent values, with their counts.

    An array of structs: `value`, its `count`, and `error`: the value came at least count - error
    and at most count times. The most frequent value comes first; of equally frequent values the
    smallest. While there were no more than `capacity` different values, counts are exact and error
    is 0. Past that, the error is at most `count_error(capacity)` of all values that were counted. A
    value is listed only where it is surely more frequent than the error, so that there may be fewer
    than n, and none where no value stands out. Which of two values that are closer than the error
    comes first may depend on the order of the rows.

    Nulls are not listed. Values are numbers (0.0 and -0.0 are two), text, booleans, dates and
    timestamps; take binary by `F.hex`, and others as text. A partial is a struct: `sketch`, binary,
    and `of`, a null that bears the values' type. It takes up to some 2 * capacity times the size of
    a value and 8 bytes; past 16 MiB it is an error. Merging sketches of different capacity or type
    is an error. Merge by a key, as windows, `merged` with `by` and `Upsert` do: Spark's merge fails
    in an aggregation without groups where a task has no rows.

    Args:
        value: the column.
        n: how many values, at least one.
        capacity: how many different values are counted, n to 999,999.

    Raises:
        ArgumentError: for n or capacity out of range.

    Source: Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in Data
    Streams (2017).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": top("user", 1)}).head().users
    [Row(value='u0', count=5, error=0)]
    """
    require_whole(capacity, "capacity", 1, MOST_CAPACITY)
    if not isinstance(n, int) or not 1 <= n <= capacity:
        raise ArgumentError(
            f"n is {n!r}, and capacity {capacity}.", "1 <= n <= capacity.", 'top("page", 10)'
        )

    return Aggregate(
        partial=lambda time: _counted(column(value), capacity),
        merge=lambda partials: _merged(partials, capacity),
        finish=lambda partial: once(partial, lambda whole: _finished(whole, n, capacity)),
        inputs=((value, "any"),),
    )


def count_error(capacity: int) -> float:
    """Return how far a count is off, at most, as a share of all values counted.

    Source: Apache DataSketches, frequent items: 3.5 / (size of the map). The size is the power of
    two that holds 4/3 of `capacity`.

    >>> round(count_error(1_000), 5)
    0.00171
    """
    require_whole(capacity, "capacity", 1, MOST_CAPACITY)
    places = ceil(capacity / 0.75)
    return 3.5 / max(8, 1 << ceil(log2(places)))


# The number of values counted stands before Spark's sketch.
_SEEN_BYTES = 8
# An empty sketch: length and version of its head, family, sizes as powers of two, "empty"; then the
# count of nulls.
_EMPTY = bytes([1, 1, 10, 8, 3, 5]).ljust(16, b"\0")
# The first and last byte, counted from 1, of how many values a sketch counted and of its error.
_WEIGHT_AT = (_SEEN_BYTES + 17, _SEEN_BYTES + 24)
_ERROR_AT = (_SEEN_BYTES + 25, _SEEN_BYTES + 32)


def _counted(values: Column, capacity: int) -> Column:
    """Return the partial of a group's values, as an aggregate."""
    state = F.call_function("approx_top_k_accumulate", values, F.lit(capacity))
    return _stored(state, F.count(values), _label(capacity, state["itemDataType"]))


def _merged(partials: Column, capacity: int) -> Column:
    """Return the partial of a group's partials, as an aggregate."""
    of = partials["of"]
    payload = opened(partials["sketch"], _label(capacity, of))
    given = _state(payload, of, capacity)
    state = F.call_function("approx_top_k_combine", given, F.lit(capacity))
    merged = _stored(state, F.sum(_seen(payload)), _label(capacity, F.max(of)))
    return F.when(F.count(partials) > 0, merged)


def _finished(partial: Column, n: int, capacity: int) -> Column:
    """Return the list of a partial's values."""
    of = partial["of"]
    payload = opened(partial["sketch"], _label(capacity, of))
    return once(payload, lambda payload: _listed(payload, of, n, capacity))


def _label(capacity: int, of: Column) -> Column:
    return F.concat(F.lit(f"{KIND} capacity={capacity} of="), F.typeof(of))


def _seen(payload: Column) -> Column:
    return F.conv(F.hex(F.substring(payload, 1, _SEEN_BYTES)), 16, 10).cast("bigint")


def _stored(state: Column, seen: Column, label: Column) -> Column:
    """Return the partial that holds the struct of Spark's functions, and how many were counted."""
    payload = F.concat(F.unhex(F.lpad(F.hex(seen), 2 * _SEEN_BYTES, "0")), state["sketch"])
    return F.struct(sealed(payload, label).alias("sketch"), state["itemDataType"].alias("of"))


def _state(payload: Column, of: Column, capacity: int) -> Column:
    """Return the struct that Spark's functions take; an empty sketch for null."""
    sketch = F.substring(payload, _SEEN_BYTES + 1, LARGEST)
    return F.struct(
        F.coalesce(sketch, F.lit(_EMPTY)).alias("sketch"),
        F.lit(capacity).alias("maxItemsTracked"),
        of.alias("itemDataType"),
        F.concat(F.lit("item "), F.typeof(of), F.lit(" not null")).alias("itemDataTypeDDL"),
    )


def _errors(payload: Column, capacity: int) -> Column:
    """Return the error that Spark's sketch knows of, and the error of parts that it forgot.

    A sketch that has dropped all its values is stored, and merged, as an empty one: its error is
    gone, and so is its share of the values counted. How many values are missing from all that were
    counted tells how large the forgotten error can have been.
    """
    own = F.coalesce(unsigned(payload, *_ERROR_AT), F.lit(0)).cast("bigint")
    weight = F.coalesce(unsigned(payload, *_WEIGHT_AT), F.lit(0)).cast("bigint")
    forgotten = F.ceil((_seen(payload) - weight) * F.lit(count_error(capacity)))
    return F.struct(own.alias("own"), forgotten.alias("forgotten"))


def _listed(payload: Column, of: Column, n: int, capacity: int) -> Column:
    # One more than are counted, since Spark lists null among them.
    most = capacity + 1
    items = F.call_function("approx_top_k_estimate", _state(payload, of, most), F.lit(most))
    errors = _errors(payload, capacity)
    return F.when(payload.isNotNull(), once(errors, lambda e: _first(items, e, n)))


def _first(items: Column, errors: Column, n: int) -> Column:
    """Return the n most frequent items that stand out from the error."""
    error = errors["own"] + errors["forgotten"]

    def stands_out(item: Column) -> Column:
        least = item["count"] - errors["own"]
        return item["item"].isNotNull() & (least > error)

    # An array is sorted by its structs' fields in their order, upwards: so the count is negative.
    def ranked(item: Column) -> Column:
        negative = -item["count"] - errors["forgotten"]
        return F.struct(negative.alias("negative"), item["item"].alias("value"))

    def answer(item: Column) -> Column:
        count = -item["negative"]
        return F.struct(item["value"].alias("value"), count.alias("count"), error.alias("error"))

    ranking = F.sort_array(F.transform(F.filter(items, stands_out), ranked))
    return F.transform(F.slice(ranking, 1, n), answer)
