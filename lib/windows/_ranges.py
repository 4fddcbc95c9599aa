"""Folds over many overlapping ranges of one sorted column, in numpy.

The cost is n log n, whatever the ranges' lengths.

A range is a pair of positions (first, length), length at least 1. A sum of whole numbers is the
difference of two running totals, exact even where those overflow. A sum of doubles is put together
from blocks of 1, 2, 4, ... values, one for each binary digit of the length; a minimum from the two
longest blocks that cover the range. Of these nothing is subtracted, so that a NaN or an infinity
touches only the ranges that hold it. (Sparse tables: Bender and Farach-Colton, The LCA Problem
Revisited, 2000.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..aggregates import Operation

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[Any]]
_DIGITS = 4


def fold(values: pa.Array, first: Ints, length: Ints, operation: Operation) -> pa.Array:
    """Fold each range of the values, nulls passed over; null where a range holds nothing else."""
    if operation == "sum":
        return _sums(values, first, length)
    return _extremes(values, first, length, least=operation == "min")


def _sums(values: pa.Array, first: Ints, length: Ints) -> pa.Array:
    empty = _empty_ranges(values, first, length)
    if pa.types.is_decimal(values.type):
        return _decimal_sums(values, first, length, empty)
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    sums = _range_sums(plain, first, length)
    if plain.dtype.kind == "i":
        _refuse_overflow(plain, sums, first, length)
    return pa.array(sums, type=values.type, mask=empty)


def _empty_ranges(values: pa.Array, first: Ints, length: Ints) -> Flags | None:
    """Return which ranges hold nulls alone; None where there is no null at all."""
    if not values.null_count:
        return None
    known = np.asarray(values.is_valid()).astype(np.int64)
    empty: Flags = _range_sums(known, first, length) == 0
    return empty


def _range_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    if values.dtype.kind != "i":
        return _block_sums(values, first, length)
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    differences: Numbers = totals[first + length] - totals[first]
    return differences


def _block_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    sums = np.zeros(len(first), dtype=values.dtype)
    # How far each range has been summed, and the sums of blocks of 2^digit values from each one on.
    at = first.copy()
    blocks = values
    with np.errstate(invalid="ignore"):
        for digit in range(int(length.max(initial=0)).bit_length()):
            size = 1 << digit
            here = np.flatnonzero(length & size)
            sums[here] += blocks[at[here]]
            at[here] += size
            blocks = blocks[:-size] + blocks[size:]
    return sums


def _refuse_overflow(values: Numbers, sums: Numbers, first: Ints, length: Ints) -> None:
    highest = float(np.abs(values.astype(np.float64)).max(initial=0.0))
    if highest * int(length.max(initial=0)) < 2.0**62:
        return
    # A sum that has overflowed is off by a multiple of 2^64, which is more than rounding can hide.
    near = _block_sums(values.astype(np.float64), first, length)
    if (np.abs(near - sums.astype(np.float64)) >= 2.0**63).any():
        raise OverflowError(
            "a total in a sliding window is beyond a bigint; cast the column to decimal(38, 0) or "
            "double"
        )


def _decimal_sums(values: pa.Array, first: Ints, length: Ints, empty: Flags | None) -> pa.Array:
    digits = _digits(values.fill_null(0))
    sums = np.empty((len(first), _DIGITS), dtype=np.uint32)
    carry = np.zeros(len(first), dtype=np.int64)
    for place in range(_DIGITS):
        column = np.ascontiguousarray(digits[:, place])
        carry += _range_sums(column, first, length)
        sums[:, place] = (carry & 0xFFFFFFFF).astype(np.uint32)
        carry >>= 32
    validity = None if empty is None else pa.array(~empty).buffers()[1]
    buffers = [validity, pa.py_buffer(sums.tobytes())]
    return pa.Array.from_buffers(values.type, len(first), buffers)


def _digits(decimals: pa.Array) -> Ints:
    """Return the digits of 32 bits that decimals are made of, the lowest first.

    A decimal128 is a whole number of 16 bytes. Its digits have room in 64 bits, so that each place
    can be summed apart and the carries joined at the end. The highest one bears the sign.
    """
    words = np.frombuffer(decimals.buffers()[1], dtype="<u4")
    begin = _DIGITS * decimals.offset
    end = begin + _DIGITS * len(decimals)
    digits = words[begin:end].reshape(-1, _DIGITS).astype(np.int64)
    digits[:, -1] = digits[:, -1].astype(np.uint32).view(np.int32)
    return digits


def _extremes(values: pa.Array, first: Ints, length: Ints, *, least: bool) -> pa.Array:
    # The greatest rank of a range is looked for; ranks run backwards for the least value, and a
    # null has none.
    order = _order(values)
    if least:
        order = order[::-1]
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    rank[~np.asarray(values.is_valid())] = -1
    best = _greatest(rank, first, length)
    return values.take(pa.array(order[best], mask=best < 0))


def _greatest(numbers: Ints, first: Ints, length: Ints) -> Ints:
    """Return the greatest number of each range: of the two longest blocks that cover it."""
    greatest = np.full(len(first), -1, dtype=np.int64)
    blocks = numbers
    digits = np.frexp(length.astype(np.float64))[1] - 1
    for digit in range(int(digits.max(initial=-1)) + 1):
        size = 1 << digit
        here = np.flatnonzero(digits == digit)
        begin = first[here]
        end = begin + length[here]
        greatest[here] = np.maximum(blocks[begin], blocks[end - size])
        blocks = np.maximum(blocks[:-size], blocks[size:])
    return greatest


def _order(values: pa.Array) -> Ints:
    """Return the positions of the values, upwards in Spark's order."""
    keys = {f"{i}": part for i, part in enumerate(_sort_keys(values))}
    sorting = [(name, "ascending") for name in keys]
    order: Ints = pc.sort_indices(pa.table(keys), sort_keys=sorting).to_numpy().astype(np.int64)
    return order


def _sort_keys(values: pa.Array) -> list[pa.Array]:
    # Spark puts null below all values inside a struct, and NaN above all numbers.
    if not pa.types.is_struct(values.type):
        return [values.is_valid(), values]
    return [values.is_valid(), *[key for field in values.flatten() for key in _sort_keys(field)]]
