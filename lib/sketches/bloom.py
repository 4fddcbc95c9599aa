"""Bloom filters in one value: which keys were there. No false negative, few false positives.

In a window such a filter is an aggregate as any other; `BloomTable` makes a filter of any size from
many such values.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from ._bloom_filter import (
    HashedKey,
    Key,
    filter_aggregate,
    is_set,
    key_columns,
    key_hash,
    key_parts,
    key_types,
    measured,
    position,
    typed_label,
)
from .bloom_size import one_block
from .stored import once


def bloom(value: Key, *, keys: int, false_positives: float = 0.01) -> Aggregate:
    """Keep which keys were there, as a Bloom filter that `might_contain` asks.

    Bytes; null where there was no row. A key that was there is always found. A key that was not is
    found with the probability `false_positives` while the filter holds at most `keys` different
    keys, and more often beyond that: `fullness` tells how many it holds. A filter takes 9.6 bits a
    key at 0.01 and 4.8 more for each tenth of that rate, whether it is full or not. It holds at
    most some 23,000 keys; `BloomTable` holds any number.

    A key may be of every type that `F.xxhash64` takes (all but maps and variants), and of several
    columns. A key with a null is equal to nothing: it is not added, and never found. Nulls inside a
    struct or an array are passed over. Filters merge where keys, false_positives and the types of
    the columns are the same. Merging others is an error, and so is asking for a key of another
    type: 1 as int and 1 as bigint are two keys.

    Args:
        value: the column, or columns, of the key.
        keys: how many different keys are planned for.
        false_positives: the rate that is allowed, 1e-9 to below 1.

    Raises:
        ArgumentError: for a filter that one value cannot hold.

    Source: Bloom (1970), partitioned by hash function as in Chang, Li and Feng, Approximate Caches
    (2004).

    >>> from tidegate.windows import tumbling
    >>> day = tumbling(clicks, "1 day", aggs={"users": bloom("user", keys=1_000)})
    >>> asked = [might_contain("users", F.lit(user)) for user in ("u1", "u7")]
    >>> day.select(*asked).head()[:]
    (True, False)
    """
    size = one_block(keys, false_positives)

    def keyed() -> HashedKey:
        columns = key_columns(value)
        # The label is a constant, but beside aggregates Spark asks for an aggregate.
        return HashedKey(key_hash(columns), F.max(typed_label(size, columns)))

    return filter_aggregate(size, keyed, key_parts(value))


def might_contain(stored: str | Column, value: Key) -> Column:
    """Return whether a filter of `bloom` may hold a key: false is certain, true is probable.

    False for a key with a null, which is in no filter; null where there is no filter. Each row's
    filter is checked first, which costs more than the asking: where many keys meet one filter,
    `BloomTable` is faster. An error, when the query runs, for bytes that are no sound filter, and
    for a key whose types are not those of the filter's keys.
    """
    columns = key_columns(value)
    given = column(stored)

    def answer(found: Column) -> Column:
        width = _bytes_of(found["bits"])

        def in_slice(i: Column) -> Column:
            return is_set(found["bitmaps"], i * width, position(found["hash"], i, found["bits"]))

        in_all = F.forall(_slices_of(found), in_slice)
        return F.when(found["hash"].isNull(), False).otherwise(in_all)

    filter_ = measured(given, key_types(columns))
    asked = F.struct(*filter_, key_hash(columns).alias("hash"))
    return F.when(given.isNotNull(), once(asked, answer))


def fullness(stored: str | Column) -> Column:
    """Return how full a filter of `bloom` is: a struct of keys, fill and false_positives.

    keys: about how many different keys were added (bigint; the standard error is below 1 % in a
        filter of 1,000 or more); a filter with all bits set may hold any number beyond this.
    fill: the share of bits set.
    false_positives: the rate at which it finds keys that were not there, as it is now.

    >>> users = bloom("user", keys=1_000).partial(F.col("event_time"))
    >>> full = clicks.groupBy().agg(users.alias("users")).select(fullness("users").alias("full"))
    >>> full.head().full.keys
    2
    """
    given = column(stored)

    def fill_of_slices(found: Column) -> Column:
        width = _bytes_of(found["bits"])
        bits = found["bits"].cast("double")

        def fill(i: Column) -> Column:
            return F.bitmap_count(found["bitmaps"].substr(i * width + 1, width)) / bits

        fills = F.transform(_slices_of(found), fill)
        return once(F.struct(fills.alias("fills"), bits.alias("bits")), _fullness)

    return F.when(given.isNotNull(), once(F.struct(*measured(given)), fill_of_slices))


def _fullness(found: Column) -> Column:
    fill = _sum(found["fills"]) / F.size(found["fills"])
    # A full slice would stand for endlessly many keys: half a bit is taken to be free.
    below_one = F.least(fill, 1 - 0.5 / found["bits"])
    # A key sets a bit of a slice with the chance 1 / bits, so a fill f comes of this many keys.
    chance = 1 / F.greatest(found["bits"], F.lit(2.0))
    keys = F.round(F.log1p(-below_one) / F.log1p(-chance))
    return F.struct(
        keys.cast("bigint").alias("keys"),
        fill.alias("fill"),
        _product(found["fills"]).alias("false_positives"),
    )


def _sum(numbers: Column) -> Column:
    return F.aggregate(numbers, F.lit(0.0), lambda total, number: total + number)


def _product(numbers: Column) -> Column:
    return F.aggregate(numbers, F.lit(1.0), lambda total, number: total * number)


def _slices_of(found: Column) -> Column:
    return F.sequence(F.lit(0), found["slices"] - 1)


def _bytes_of(bits: Column) -> Column:
    return F.shiftright(bits + 7, 3)
