"""Bloom filters in one value, built by an aggregate of windows.

A filter has one bitmap (slice) per hash function. Spark's bitmap aggregates build and merge the
bitmaps; the envelope contains them one after the other. `BloomTable` builds a filter of any size
from many such values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add, and_, mul

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..aggregates import Aggregate
from ..columns import as_column
from ..errors import ArgumentError
from ._envelope import HEADER_BYTES, LABEL_BYTES, compute_once, decode_sketch, encode_sketch
from .bloom_size import BloomSize, fit_single_block, slice_bytes

KIND = "members"
"""The first word of the label of stored filters; a change would invalidate existing tables."""
_MAX_TYPES_LENGTH = 14
"""The characters that the label reserves for the types of the key."""

Key = str | Column | Sequence[str | Column]
"""A key of one column or of several columns."""


def bloom_filter(value: Key, *, expected_items: int, fpp: float = 0.01) -> Aggregate:
    """Build a Bloom filter of a key; `might_contain` queries it.

    The result is binary, and null without rows. The filter has no false negatives. The probability
    of a false positive is at most `fpp` for up to `expected_items` distinct keys, and grows beyond
    that; `bloom_filter_stats` returns the current values. A filter takes 9.6 bits per expected key
    at fpp=0.01, and 4.8 more for each tenth of that rate, at any fill. It is limited to some 23,000
    keys at this rate; `BloomTable` has no limit.

    A key has one or more columns of any type that `F.xxhash64` accepts (all but maps and variants).
    The filter ignores keys with a null, and nulls inside structs and arrays. Filters merge if
    `expected_items`, `fpp` and the column types are equal; otherwise the query fails, as it does
    when a key of another type is looked up: 1 as int and 1 as bigint are different keys.

    Args:
        value: the column or columns of the key.
        expected_items: the expected number of distinct keys.
        fpp: the false positive probability, from 1e-9 to below 1.

    Raises:
        ArgumentError: if a single value is too small for the filter.

    Source: Bloom (1970), partitioned by hash function as in Chang, Li and Feng, Approximate Caches
    (2004).

    >>> from tidegate.windows import tumbling
    >>> aggs = {"users": bloom_filter("user", expected_items=1_000)}
    >>> day = tumbling(clicks, "1 day", aggs=aggs)
    >>> day.select(*[might_contain("users", F.lit(user)) for user in ("u1", "u7")]).head()[:]
    (True, False)
    """
    return replace(
        filter_aggregate(fit_single_block(expected_items, fpp), _key_parts(value)),
        plan_name="bloom_filter",
        plan_arguments={"value": value, "expected_items": expected_items, "fpp": fpp},
    )


def might_contain(stored: str | Column, value: Key) -> Column:
    """Return whether a filter of `bloom_filter` may contain a key; false is certain.

    False for a key with a null; null for a null filter. Each row validates its filter, which costs
    more than the lookup; for many lookups in one filter, `BloomTable` is faster. The query fails
    for bytes that are not a valid filter and for a key of other types than the filter has.

    >>> users = bloom_filter("user", expected_items=1_000).partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(might_contain("users", F.lit("u1"))).head()[0]
    True
    """
    columns = [as_column(part) for part in _key_parts(value)]
    sketch = as_column(stored, "stored")

    def probe(decoded: Column) -> Column:
        width = _slice_width(decoded["bits"])

        def in_slice(i: Column) -> Column:
            bit = _bit_position(decoded["hash"], i, decoded["bits"])
            return _is_bit_set(decoded["bitmaps"], i * width, bit)

        in_all = F.forall(_slice_numbers(decoded), in_slice)
        return F.when(decoded["hash"].isNull(), False).otherwise(in_all)

    filter_ = _decode_filter(sketch, _key_types(columns))
    probe_input = F.struct(*filter_, key_hash(columns).alias("hash"))
    return F.when(sketch.isNotNull(), compute_once(probe_input, probe))


def bloom_filter_stats(stored: str | Column) -> Column:
    """Return the number of keys, the fill level and the error rate of a stored Bloom filter.

    keys: the estimated number of distinct keys (bigint; the standard error is below 1 % for filters
        of 1,000 keys or more); a lower bound once all bits are set.
    fill: the fraction of bits set.
    false_positives: the current probability of a false positive.

    >>> users = bloom_filter("user", expected_items=1_000).partial(F.col("event_time"))
    >>> stored = clicks.groupBy().agg(users.alias("users"))
    >>> stored.select(bloom_filter_stats("users").alias("stats")).head().stats.keys
    2
    """
    sketch = as_column(stored, "stored")

    def fill_of_slices(decoded: Column) -> Column:
        width = _slice_width(decoded["bits"])
        bits = decoded["bits"].cast("double")

        def fill(i: Column) -> Column:
            return F.bitmap_count(decoded["bitmaps"].substr(i * width + 1, width)) / bits

        fills = F.transform(_slice_numbers(decoded), fill)
        return compute_once(F.struct(fills.alias("fills"), bits.alias("bits")), _filter_stats)

    stats = compute_once(F.struct(*_decode_filter(sketch)), fill_of_slices)
    return F.when(sketch.isNotNull(), stats)


def _key_parts(value: Key) -> list[str | Column]:
    if isinstance(value, str | Column) or not isinstance(value, Sequence):
        return [value]
    if not value:
        raise ArgumentError(f"invalid value: {value!r}", "one or more columns", 'value="user"')
    return list(value)


def key_hash(columns: Sequence[Column]) -> Column:
    """Return the 64-bit hash of a key; null for a key with a null, which `xxhash64` ignores."""
    is_complete = reduce(and_, [part.isNotNull() for part in columns])
    return F.when(is_complete, F.xxhash64(*columns))


def build_filter(size: BloomSize, hashed: Column, label: Column) -> Column:
    """Return the aggregate expression of the filter of one block, from the hashes of its keys."""
    bits = [_bit_position(hashed, F.lit(i), F.lit(size.bits)) for i in range(size.slices)]
    bitmaps = [F.bitmap_construct_agg(F.when(hashed.isNotNull(), bit)) for bit in bits]
    return encode_sketch(_concat_bitmaps(bitmaps, slice_bytes(size.bits)), label)


def filter_aggregate(size: BloomSize, key: Sequence[str | Column]) -> Aggregate:
    """Return the aggregate that builds and merges filters of one block."""
    width = slice_bytes(size.bits)

    def partial(time: Column) -> Column:
        columns = [as_column(part) for part in key]
        # The label is constant, but Spark requires an aggregate in an aggregation.
        return build_filter(size, key_hash(columns), F.max(typed_label(size, columns)))

    def merge(partials: Column) -> Column:
        # Decoding the first slice checks all bytes of the envelope; the others are read directly.
        first = F.substring(decode_sketch(partials, _parameter_label(size)), 1, width)
        starts = [HEADER_BYTES + i * width + 1 for i in range(1, size.slices)]
        slices = [first, *[F.substring(partials, start, width) for start in starts]]
        bitmaps = [F.bitmap_or_agg(item) for item in slices]
        return encode_sketch(_concat_bitmaps(bitmaps, width), _common_label(partials))

    return Aggregate(
        partial=partial,
        merge=merge,
        finish=lambda partial: partial,
        inputs=tuple((part, "any") for part in key),
    )


def has_key(bitmaps: Column, hashed: Column, size: BloomSize) -> Column:
    """Return whether all bits of a key are set in a filter of known size."""
    width = slice_bytes(size.bits)

    def in_slice(i: int) -> Column:
        bit = _bit_position(hashed, F.lit(i), F.lit(size.bits))
        return _is_bit_set(bitmaps, F.lit(i * width), bit)

    return reduce(and_, map(in_slice, range(size.slices)))


def _bit_position(hashed: Column, slice_: Column, bits: Column) -> Column:
    """Return the 0-based bit that a key sets in a slice."""
    return F.pmod(F.xxhash64(hashed, slice_), bits)


def _is_bit_set(bitmaps: Column, start: Column, bit: Column) -> Column:
    """Return whether a bit is set in the bitmap that starts at the 0-based byte `start`."""
    byte_index = (start + F.shiftright(bit, 3) + 1).cast("int")
    # Spark cannot read a byte as a number; ISO-8859-1 maps each byte to one character.
    byte = F.ascii(F.decode(bitmaps.substr(byte_index, F.lit(1)), "ISO-8859-1"))
    return F.getbit(byte, bit.bitwiseAND(7).cast("int")) == 1


def _parameter_label(size: BloomSize) -> str:
    return f"{KIND} k={size.slices} bits={size.bits} of={size.blocks}"


def typed_label(size: BloomSize, columns: Sequence[Column]) -> Column:
    """Return the complete label of a filter: its size and the types of its key."""
    return F.concat_ws(" ", F.lit(_parameter_label(size)), _key_types(columns))


def _key_types(columns: Sequence[Column]) -> Column:
    """Return the last word of a label: the types of the key, or their CRC-32 if they are long."""
    types = F.concat_ws(",", *[F.typeof(part) for part in columns])
    is_short = types.rlike(f"^[a-z0-9_,()]{{1,{_MAX_TYPES_LENGTH}}}$")
    checksum = F.hex(F.crc32(types.cast("binary")))
    return F.concat(F.lit("key="), F.when(is_short, types).otherwise(checksum))


def _decode_filter(stored: Column, types: Column | None = None) -> list[Column]:
    """Return `bitmaps`, `slices` and `bits` of a stored filter, after all checks of its envelope.

    With `types`, the keys of the filter must also have these types.
    """
    parameters = F.substring_index(_stored_label(stored), " key=", 1)
    expected = F.lit(KIND)
    if types is not None:
        is_filter = parameters.startswith(f"{KIND} ")
        expected = F.concat_ws(" ", F.when(is_filter, parameters), types)
    words = F.split(parameters, " ")
    return [
        decode_sketch(stored, expected).alias("bitmaps"),
        _parameter(words, 1).alias("slices"),
        _parameter(words, 2).alias("bits"),
    ]


def _parameter(words: Column, index: int) -> Column:
    """Return the number in a word such as `k=7`; null without such a word."""
    return F.substring_index(F.get(words, F.lit(index)), "=", -1).try_cast("int")


def _concat_bitmaps(bitmaps: Sequence[Column], width: int) -> Column:
    """Return the bitmaps in one value, each truncated from the 4 kB of Spark to `width` bytes."""
    return F.concat(*[F.substring(bitmap, 1, width) for bitmap in bitmaps])


def _stored_label(stored: Column) -> Column:
    label_bytes = F.substring(stored, HEADER_BYTES - LABEL_BYTES + 1, LABEL_BYTES)
    return F.rtrim(F.decode(label_bytes, "ISO-8859-1"))


def _common_label(partials: Column) -> Column:
    """Return the common label of all filters; raise an error for keys of different types."""
    first_label = F.min(_stored_label(partials))
    last_label = F.max(_stored_label(partials))
    message = F.format_string(
        "cannot merge Bloom filters: labels are `%s` and `%s`\n"
        "  cause: The filters have keys of different types.\n"
        "  fix: Cast the key to one type before the filters are built.",
        first_label,
        last_label,
    )
    error = F.when(first_label.isNotNull(), F.raise_error(message).cast("string"))
    return F.when(first_label == last_label, first_label).otherwise(error)


def _filter_stats(slice_fills: Column) -> Column:
    fills = slice_fills["fills"]
    fill = F.aggregate(fills, F.lit(0.0), add) / F.size(fills)
    product = F.aggregate(fills, F.lit(1.0), mul)
    # A full slice would give an infinite estimate: assume that half a bit is free.
    below_one = F.least(fill, 1 - 0.5 / slice_fills["bits"])
    # A key sets a bit of a slice with probability 1 / bits; invert the expected fill.
    bit_probability = 1 / F.greatest(slice_fills["bits"], F.lit(2.0))
    keys = F.round(F.log1p(-below_one) / F.log1p(-bit_probability))
    counted = keys.cast("bigint").alias("keys")
    return F.struct(counted, fill.alias("fill"), product.alias("false_positives"))


def _slice_numbers(decoded: Column) -> Column:
    return F.sequence(F.lit(0), decoded["slices"] - 1)


def _slice_width(bits: Column) -> Column:
    return F.shiftright(bits + 7, 3)
