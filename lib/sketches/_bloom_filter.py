"""How a Bloom filter lies in bytes: its bitmaps, its label, and the aggregate that makes it.

A filter is a row of bitmaps, its slices, one for each hash function. They are made and merged by
Spark's own bitmap aggregates, and stand one after the other in a checked envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import column
from .bloom_size import BloomSize, slice_bytes
from .stored import HEADER_BYTES, LABEL_BYTES, opened, sealed

# The word that stored filters begin their label with. Tables are full of it, so that it stays,
# whatever the aggregate is called.
KIND = "members"
_TYPES_LETTERS = 14
"""How many letters of the label are left for the key's types."""

Key = str | Column | Sequence[str | Column]
"""A column, or several that make up a key together."""


@dataclass(frozen=True)
class HashedKey:
    """What a filter is made of: the hash of a row's key, and the label of a filter of such keys."""

    hash: Column
    label: Column


def key_parts(value: Key) -> list[str | Column]:
    """Return the columns of a key as they were given."""
    return [value] if isinstance(value, str | Column) else list(value)


def key_columns(value: Key) -> list[Column]:
    """Return the columns of a key."""
    return [column(part) for part in key_parts(value)]


def key_hash(columns: Sequence[Column]) -> Column:
    """Return a key's 64-bit hash; null for a key with a null, which `xxhash64` would pass over."""
    whole = reduce(and_, [each.isNotNull() for each in columns])
    return F.when(whole, F.xxhash64(*columns))


def filter_aggregate(
    size: BloomSize, keyed: Callable[[], HashedKey], inputs: Sequence[str | Column] = ()
) -> Aggregate:
    """Return the aggregate that makes and merges filters of one block.

    `keyed` is called when a plan is made, since there are no columns before there is a session.
    """
    width = slice_bytes(size.bits)

    def partial(time: Column) -> Column:
        key = keyed()
        bitmaps = [F.bitmap_construct_agg(_set_bit(key.hash, i, size)) for i in range(size.slices)]
        return sealed(_side_by_side(bitmaps, width), key.label)

    def merge(partials: Column) -> Column:
        # Only the first slice is taken out of the envelope, which checks all of its bytes: the
        # others are read where they lie.
        first = F.substring(opened(partials, label(size)), 1, width)
        starts = [HEADER_BYTES + i * width + 1 for i in range(1, size.slices)]
        slices = [first, *[F.substring(partials, start, width) for start in starts]]
        bitmaps = [F.bitmap_or_agg(each) for each in slices]
        return sealed(_side_by_side(bitmaps, width), _common_label(partials))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=lambda partial: partial,
        inputs=tuple((each, "any") for each in inputs),
    )


def has_key(bitmaps: Column, hashed: Column, size: BloomSize) -> Column:
    """Return whether all bits of a key are set, in a filter whose measures are known beforehand."""
    width = slice_bytes(size.bits)

    def in_slice(i: int) -> Column:
        place = position(hashed, F.lit(i), F.lit(size.bits))
        return is_set(bitmaps, F.lit(i * width), place)

    return reduce(and_, map(in_slice, range(size.slices)))


def position(hashed: Column, slice_: Column, bits: Column) -> Column:
    """Return which bit of a slice a key sets, counted from 0."""
    return F.pmod(F.xxhash64(hashed, slice_), bits)


def is_set(bitmaps: Column, start: Column, place: Column) -> Column:
    """Return whether a bit is set, in the bitmap that begins at byte `start`, counted from 0."""
    at = (start + F.shiftright(place, 3) + 1).cast("int")
    # Spark has no function that reads a byte as a number. ISO-8859-1 has a letter for each byte.
    byte = F.ascii(F.decode(bitmaps.substr(at, F.lit(1)), "ISO-8859-1"))
    return F.getbit(byte, place.bitwiseAND(7).cast("int")) == 1


def label(size: BloomSize) -> str:
    """Return the part of a filter's label that says its measures."""
    return f"{KIND} k={size.slices} bits={size.bits} of={size.blocks}"


def typed_label(size: BloomSize, columns: Sequence[Column]) -> Column:
    """Return a filter's whole label: its measures and the types of its key."""
    return F.concat_ws(" ", F.lit(label(size)), key_types(columns))


def key_types(columns: Sequence[Column]) -> Column:
    """Return the last word of a label: the key's types, or their check sum where they are long."""
    types = F.concat_ws(",", *[F.typeof(each) for each in columns])
    is_short = types.rlike(f"^[a-z0-9_,()]{{1,{_TYPES_LETTERS}}}$")
    check_sum = F.hex(F.crc32(types.cast("binary")))
    return F.concat(F.lit("key="), F.when(is_short, types).otherwise(check_sum))


def measured(stored: Column, types: Column | None = None) -> list[Column]:
    """Return a stored filter's `bitmaps`, `slices` and `bits`, after all checks of its envelope.

    With `types`, the filter must also be one of keys of these types.
    """
    measures = F.substring_index(_label_of(stored), " key=", 1)
    wanted = F.lit(KIND)
    if types is not None:
        is_filter = measures.startswith(f"{KIND} ")
        wanted = F.concat_ws(" ", F.when(is_filter, measures), types)
    words = F.split(measures, " ")
    return [
        opened(stored, wanted).alias("bitmaps"),
        _number_in(words, 1).alias("slices"),
        _number_in(words, 2).alias("bits"),
    ]


def _number_in(words: Column, at: int) -> Column:
    """Return the number of a word such as `k=7`; null where there is none."""
    return F.substring_index(F.get(words, F.lit(at)), "=", -1).try_cast("int")


def _set_bit(hashed: Column, slice_: int, size: BloomSize) -> Column:
    return F.when(hashed.isNotNull(), position(hashed, F.lit(slice_), F.lit(size.bits)))


def _side_by_side(bitmaps: Sequence[Column], width: int) -> Column:
    """Return the bitmaps in one value, each cut to `width` bytes: Spark's are 4 kB, always."""
    return F.concat(*[F.substring(bitmap, 1, width) for bitmap in bitmaps])


def _label_of(stored: Column) -> Column:
    found = F.substring(stored, HEADER_BYTES - LABEL_BYTES + 1, LABEL_BYTES)
    return F.rtrim(F.decode(found, "ISO-8859-1"))


def _common_label(partials: Column) -> Column:
    """Return the label that all filters have, and refuse filters of keys of different types."""
    least = F.min(_label_of(partials))
    greatest = F.max(_label_of(partials))
    refusal = F.concat(
        F.lit("Filters of keys of different types do not merge: `"),
        least,
        F.lit("` and `"),
        greatest,
        F.lit("`.\n  allowed: keys of the same types."),
        F.lit("\n  instead: cast the key before its filter is made."),
    )
    refused = F.when(least.isNotNull(), F.raise_error(refusal).cast("string"))
    return F.when(least == greatest, least).otherwise(refused)
