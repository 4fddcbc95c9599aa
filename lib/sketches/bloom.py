"""Bloom filters in one value: which keys were there, with no false negative and few false positives.

A filter is a row of bitmaps, one for each hash function, made and merged by Spark's own bitmap
aggregates. In a window it is an aggregate as any other; `bloom_table` makes a filter of any size
from many such values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from .bloom_size import BloomSize, one_block, slice_bytes
from .stored import HEADER_BYTES, LABEL_BYTES, once, opened, sealed

KIND = "members"
_TYPES = 14
"""How many letters of the label are left for the key's types."""

Key = str | Column | Sequence[str | Column]
"""A column, or several that make up a key together."""


def members(value: Key, *, keys: int, false_positives: float = 0.01) -> Aggregate:
    """Keep which keys were there, as a Bloom filter that `contains` can be asked. Bytes; null where there was no row.

    A key that was there is always found. One that was not is found with the probability
    `false_positives` while there are no more than `keys` different ones, and more often beyond
    that: `fullness` tells how many there are. A filter takes 9.6 bits a key at 0.01 and 4.8 more
    for each tenth of it, whether it is full or not. It holds at most some 23,000 keys; `BloomTable`
    holds any number.

    A key may be of every type that `F.xxhash64` takes (all but maps and variants), and of several
    columns. A key with a
    null is equal to nothing: it is not added, and never found. Inside a struct or an array nulls do
    not count. Filters merge where keys, false_positives and the types of the columns are the same;
    all else is an error, as it is to ask
    for a key of another type: 1 as int and as bigint are two keys.

    Args:
        value: the column, or columns, of the key.
        keys: how many different keys are planned for.
        false_positives: the rate that is allowed, 1e-9 to below 1.

    Raises:
        ArgumentError: for a filter that one value cannot hold.

    Source: Bloom (1970), partitioned by hash function as in Chang, Li and Feng, Approximate Caches
    (2004).

    >>> from tidegate.windows import tumbling
    >>> day = tumbling(clicks, "1 day", aggs={"users": members("user", keys=1_000)})
    >>> day.select(contains("users", F.lit("u1")), contains("users", F.lit("u7"))).head()[:]
    (True, False)
    """
    size = one_block(keys, false_positives)

    def keyed() -> tuple[Column, Column]:
        columns = key_columns(value)
        # A constant, but Spark asks for an aggregate beside others.
        return digest(columns), F.max(typed_label(size, columns))

    return filter_aggregate(size, keyed, key_parts(value))


def contains(stored: str | Column, value: Key) -> Column:
    """Return whether a filter of `members` may hold a key: false is certain. A null key is in no filter.

    Null where there is no filter. Each row's filter is checked first, which costs more than the
    asking: where many keys meet one filter, `BloomTable` is faster. Raises, when it runs, for bytes
    that are no sound filter, and for a key whose types are not those of the filter's keys."""
    columns = key_columns(value)
    given = column(stored)

    def asked(found: Column) -> Column:
        width = _bytes(found["bits"])
        known = F.forall(
            F.sequence(F.lit(0), found["slices"] - 1),
            lambda i: _bit(found["bitmaps"], i * width, _position(found["hash"], i, found["bits"])),
        )
        return F.when(found["hash"].isNull(), False).otherwise(known)

    parts = F.struct(*_parts(given, _types(columns)), digest(columns).alias("hash"))
    return F.when(given.isNotNull(), once(parts, asked))


def fullness(stored: str | Column) -> Column:
    """Tell how full a filter of `members` is: a struct of keys, fill and false_positives.

    keys: about how many different keys were added (bigint; the standard error is below 1 % in a
        filter of 1,000 or more); a filter with all bits set may hold any number beyond what is
        said. fill: the share of bits set.
    false_positives: the rate at which it finds keys that were not there, as it is now.

    >>> day = clicks.groupBy().agg(members("user", keys=1_000).partial(F.col("event_time")).alias("users"))
    >>> day.select(fullness("users").alias("users")).head().users.keys
    2
    """
    given = column(stored)

    def told(found: Column) -> Column:
        width, bits = _bytes(found["bits"]), found["bits"].cast("double")
        fills = F.transform(
            F.sequence(F.lit(0), found["slices"] - 1),
            lambda i: F.bitmap_count(found["bitmaps"].substr(i * width + 1, width)) / bits,
        )
        return once(F.struct(fills.alias("each"), bits.alias("bits")), _filled)

    return F.when(given.isNotNull(), once(F.struct(*_parts(given)), told))


def _filled(found: Column) -> Column:
    fill = F.aggregate(found["each"], F.lit(0.0), lambda a, b: a + b) / F.size(found["each"])
    least = F.least(fill, 1 - 0.5 / found["bits"])
    keys = F.round(F.log1p(-least) / F.log1p(-1 / F.greatest(found["bits"], F.lit(2.0))))
    rate = F.aggregate(found["each"], F.lit(1.0), lambda a, b: a * b)
    return F.struct(
        keys.cast("bigint").alias("keys"), fill.alias("fill"), rate.alias("false_positives")
    )


def key_parts(value: Key) -> list[str | Column]:
    """Return the columns of a key as they were given."""
    return [value] if isinstance(value, str | Column) else list(value)


def key_columns(value: Key) -> list[Column]:
    """Return the columns of a key."""
    return [column(each) for each in key_parts(value)]


def digest(columns: Sequence[Column]) -> Column:
    """Return a key's 64-bit hash; null for a key with a null, which `xxhash64` alone would pass
    over."""
    return F.when(reduce(and_, [each.isNotNull() for each in columns]), F.xxhash64(*columns))


def label(size: BloomSize) -> str:
    """Return the part of a filter's label that says its measures."""
    return f"{KIND} k={size.slices} bits={size.bits} of={size.blocks}"


def typed_label(size: BloomSize, columns: Sequence[Column]) -> Column:
    """Return a filter's whole label: its measures and a check sum of the types of its key."""
    return F.concat_ws(" ", F.lit(label(size)), _types(columns))


def filter_aggregate(
    size: BloomSize, keyed: Callable[[], tuple[Column, Column]], inputs: Sequence[str | Column] = ()
) -> Aggregate:
    """Return the aggregate that makes and merges filters of one block, from the hash of a row's key
    and the label."""
    width = slice_bytes(size.bits)

    def built(time: Column) -> Column:
        hashed, named = keyed()
        known, measure = hashed.isNotNull(), F.lit(size.bits)
        positions = [
            F.when(known, _position(hashed, F.lit(i), measure)) for i in range(size.slices)
        ]
        return sealed(
            _joined([F.bitmap_construct_agg(position) for position in positions], width), named
        )

    def merged(partials: Column) -> Column:
        # The first slice comes out of the envelope, which checks it; the others lie in the same
        # bytes.
        first = F.substring(opened(partials, label(size)), 1, width)
        others = [
            F.substring(partials, HEADER_BYTES + i * width + 1, width)
            for i in range(1, size.slices)
        ]
        return sealed(
            _joined([F.bitmap_or_agg(slice_) for slice_ in [first, *others]], width),
            _common(partials),
        )

    return Aggregate(
        partial=built,
        merge=merged,
        finish=lambda partial: partial,
        inputs=tuple((each, "any") for each in inputs),
    )


def has_key(bitmaps: Column, hashed: Column, size: BloomSize) -> Column:
    """Return whether all bits of a key are set, where the filter's measures are known
    beforehand."""
    width = slice_bytes(size.bits)
    bits = [
        _bit(bitmaps, F.lit(i * width), _position(hashed, F.lit(i), F.lit(size.bits)))
        for i in range(size.slices)
    ]
    return reduce(and_, bits)


def _joined(bitmaps: Sequence[Column], width: int) -> Column:
    return F.concat(*[F.substring(bitmap, 1, width) for bitmap in bitmaps])


def _position(hashed: Column, slice_: Column, bits: Column) -> Column:
    return F.pmod(F.xxhash64(hashed, slice_), bits)


def _bit(bitmaps: Column, start: Column, position: Column) -> Column:
    """Return whether a bit is set; the bitmap begins at byte `start`, counted from 0."""
    at = (start + F.shiftright(position, 3) + 1).cast("int")
    byte = F.ascii(F.decode(bitmaps.substr(at, F.lit(1)), "ISO-8859-1"))
    return F.getbit(byte, position.bitwiseAND(7).cast("int")) == 1


def _bytes(bits: Column) -> Column:
    return F.shiftright(bits + 7, 3)


def _types(columns: Sequence[Column]) -> Column:
    """Return the last word of a label: the key's types, or their check sum where they are long."""
    named = F.concat_ws(",", *[F.typeof(each) for each in columns])
    short = named.rlike(f"^[a-z0-9_,()]{{1,{_TYPES}}}$")
    return F.concat(
        F.lit("key="), F.when(short, named).otherwise(F.hex(F.crc32(named.cast("binary"))))
    )


def _label_of(stored: Column) -> Column:
    found = F.substring(stored, HEADER_BYTES - LABEL_BYTES + 1, LABEL_BYTES)
    return F.rtrim(F.decode(found, "ISO-8859-1"))


def _parts(stored: Column, types: Column | None = None) -> list[Column]:
    """Return a filter's bitmaps and measures, after all checks; with `types`, also that it holds
    keys of these types."""
    own = F.substring_index(_label_of(stored), " key=", 1)
    wanted = (
        F.lit(KIND)
        if types is None
        else F.concat_ws(" ", F.when(own.startswith(f"{KIND} "), own), types)
    )
    words = F.split(own, " ")
    return [
        opened(stored, wanted).alias("bitmaps"),
        *[
            F.substring_index(F.get(words, F.lit(at)), "=", -1).try_cast("int").alias(name)
            for at, name in enumerate(("slices", "bits"), start=1)
        ],
    ]


def _common(partials: Column) -> Column:
    """Return the label that all partials have, and refuse those whose keys are of different
    types."""
    least, greatest = F.min(_label_of(partials)), F.max(_label_of(partials))
    refusal = F.concat(
        F.lit("Filters of keys of different types do not merge: `"),
        least,
        F.lit("` and `"),
        greatest,
        F.lit(
            "`.\n  allowed: keys of the same types.\n  instead: cast the key before its filter is "
            "made."
        ),
    )
    return F.when(least == greatest, least).when(
        least.isNotNull(), F.raise_error(refusal).cast("string")
    )
