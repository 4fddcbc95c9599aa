"""The most frequent values, by the items sketch of Spark (`approx_top_k`)."""

from __future__ import annotations

from math import ceil, log2

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import as_column, require_integer
from ..errors import ArgumentError
from ..versions import require_spark
from ._envelope import MAX_BYTES, compute_once, decode_sketch, encode_sketch, read_unsigned

KIND = "top"
MAX_CAPACITY = 999_999


def approx_top_k(value: str | Column, n: int, *, capacity: int = 1_000) -> Aggregate:
    """Return the n most frequent values (heavy hitters) and their counts, approximately.

    The result is an array of structs `value`, `count` and `error`, in order of descending count,
    then ascending value. The true count is between count - error and count. Up to `capacity`
    distinct values, counts are exact and error is 0; beyond that, error is at most
    `top_k_count_error(capacity)` times the number of values. The array contains only values whose
    count certainly exceeds the error, so it can have fewer than n elements. The order of values
    with counts closer than the error can depend on the order of the rows.

    Nulls are ignored. Values are numbers (0.0 and -0.0 are distinct), text, booleans, dates and
    timestamps; convert binary by `F.hex`, and other types to text. A partial is a struct: `sketch`,
    binary, and `of`, a null of the type of the values. It takes up to some 2 * capacity times the
    size of a value plus 8 bytes; more than 16 MiB is an error. Merging sketches of different
    capacity or type is an error. Merge by a key, as windows, `merge_partials` with `by` and
    `Upsert` do: the merge of Spark fails in a global aggregation if a task has no rows.

    Args:
        value: the column.
        n: the maximum number of values, at least 1.
        capacity: the number of distinct values to count, from n to 999,999.

    Raises:
        ArgumentError: for n or capacity out of range.
        SetupError: for a Spark older than 4.1.

    Source: Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in Data
    Streams (2017).

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"users": approx_top_k("user", 1)}).head().users
    [Row(value='u0', count=5, error=0)]
    """
    require_spark("4.1", "approx_top_k")
    require_integer(capacity, "capacity", 1, MAX_CAPACITY)
    if not isinstance(n, int) or not 1 <= n <= capacity:
        raise ArgumentError(
            f"invalid n: {n!r}",
            f"an integer from 1 to capacity={capacity}",
            'approx_top_k("page", 10)',
        )

    return Aggregate(
        partial=lambda time: _accumulate(as_column(value), capacity),
        merge=lambda partials: _combine(partials, capacity),
        finish=lambda partial: compute_once(partial, lambda state: _estimate(state, n, capacity)),
        inputs=((value, "any"),),
        plan_name="approx_top_k",
        plan_arguments={"value": value, "n": n, "capacity": capacity},
    )


def top_k_count_error(capacity: int) -> float:
    """Return the maximum error of a count of `approx_top_k`, as a fraction of all counted values.

    Source: Apache DataSketches, frequent items: 3.5 / (size of the map). The size is the smallest
    power of two of at least 4/3 of `capacity`.

    >>> round(top_k_count_error(1_000), 5)
    0.00171
    """
    require_integer(capacity, "capacity", 1, MAX_CAPACITY)
    slots = ceil(capacity / 0.75)
    return 3.5 / max(8, 1 << ceil(log2(slots)))


# The payload starts with the number of counted values, before the sketch of Spark.
_COUNT_BYTES = 8
# An empty sketch: preamble length, version, family, log2 of the sizes, flag "empty"; then the
# number of nulls.
_EMPTY = bytes([1, 1, 10, 8, 3, 5]).ljust(16, b"\0")
# The first and last byte (1-based) of the number of values and of the error in a sketch.
_WEIGHT_BYTES = (_COUNT_BYTES + 17, _COUNT_BYTES + 24)
_ERROR_BYTES = (_COUNT_BYTES + 25, _COUNT_BYTES + 32)


def _accumulate(values: Column, capacity: int) -> Column:
    state = F.call_function("approx_top_k_accumulate", values, F.lit(capacity))
    return _encode_partial(state, F.count(values), _label(capacity, state["itemDataType"]))


def _combine(partials: Column, capacity: int) -> Column:
    item_type = partials["of"]
    payload = decode_sketch(partials["sketch"], _label(capacity, item_type))
    states = _spark_state(payload, item_type, capacity)
    state = F.call_function("approx_top_k_combine", states, F.lit(capacity))
    label = _label(capacity, F.max(item_type))
    combined = _encode_partial(state, F.sum(_value_count(payload)), label)
    return F.when(F.count(partials) > 0, combined)


def _estimate(partial: Column, n: int, capacity: int) -> Column:
    item_type = partial["of"]
    payload = decode_sketch(partial["sketch"], _label(capacity, item_type))
    return compute_once(payload, lambda payload: _as_array(payload, item_type, n, capacity))


def _label(capacity: int, item_type: Column) -> Column:
    return F.concat(F.lit(f"{KIND} capacity={capacity} of="), F.typeof(item_type))


def _value_count(payload: Column) -> Column:
    return F.conv(F.hex(F.substring(payload, 1, _COUNT_BYTES)), 16, 10).cast("bigint")


def _encode_partial(state: Column, value_count: Column, label: Column) -> Column:
    """Return the partial of a state of Spark's functions and the number of counted values."""
    count = F.unhex(F.lpad(F.hex(value_count), 2 * _COUNT_BYTES, "0"))
    sketch = encode_sketch(F.concat(count, state["sketch"]), label)
    return F.struct(sketch.alias("sketch"), state["itemDataType"].alias("of"))


def _spark_state(payload: Column, item_type: Column, capacity: int) -> Column:
    """Return the state that Spark's functions accept; an empty sketch for null."""
    sketch = F.substring(payload, _COUNT_BYTES + 1, MAX_BYTES)
    return F.struct(
        F.coalesce(sketch, F.lit(_EMPTY)).alias("sketch"),
        F.lit(capacity).alias("maxItemsTracked"),
        item_type.alias("itemDataType"),
        F.concat(F.lit("item "), F.typeof(item_type), F.lit(" not null")).alias("itemDataTypeDDL"),
    )


def _errors(payload: Column, capacity: int) -> Column:
    """Return the error that Spark's sketch reports, and a bound of the error that it lost.

    Spark stores and merges a sketch that has dropped all of its values as an empty sketch, without
    its error and its number of values. The difference between the counted values and the number of
    values in the sketch bounds the lost error.
    """
    sketch_error = F.coalesce(read_unsigned(payload, *_ERROR_BYTES), F.lit(0)).cast("bigint")
    weight = F.coalesce(read_unsigned(payload, *_WEIGHT_BYTES), F.lit(0)).cast("bigint")
    lost = F.ceil((_value_count(payload) - weight) * F.lit(top_k_count_error(capacity)))
    return F.struct(sketch_error.alias("sketch"), lost.alias("lost"))


def _as_array(payload: Column, item_type: Column, n: int, capacity: int) -> Column:
    # One more than the capacity, because the result of Spark can contain null.
    limit = capacity + 1
    state = _spark_state(payload, item_type, limit)
    items = F.call_function("approx_top_k_estimate", state, F.lit(limit))
    errors = _errors(payload, capacity)
    return F.when(payload.isNotNull(), compute_once(errors, lambda e: _top_items(items, e, n)))


def _top_items(items: Column, errors: Column, n: int) -> Column:
    """Return the n most frequent items whose count exceeds the error."""
    error = errors["sketch"] + errors["lost"]

    def is_significant(item: Column) -> Column:
        min_count = item["count"] - errors["sketch"]
        return item["item"].isNotNull() & (min_count > error)

    # `sort_array` sorts structs by their fields, ascending; hence the negative count.
    def sort_key(item: Column) -> Column:
        negative = -item["count"] - errors["lost"]
        return F.struct(negative.alias("negative"), item["item"].alias("value"))

    def result(item: Column) -> Column:
        count = -item["negative"]
        return F.struct(item["value"].alias("value"), count.alias("count"), error.alias("error"))

    ranking = F.sort_array(F.transform(F.filter(items, is_significant), sort_key))
    return F.transform(F.slice(ranking, 1, n), result)
