"""Folds over many overlapping ranges of one sorted column, in numpy: n log n, whatever the ranges' lengths.

A range is a pair of positions (first, length), length at least 1. A sum of whole numbers is the
difference of two running totals, exact even where those overflow. A sum of doubles is put together
from blocks of 1, 2, 4, ... values, one for each binary digit of the length; a minimum from the two
longest blocks that cover the range. Of these nothing is subtracted, so that a NaN or an infinity
touches only the ranges that hold it. (Sparse tables: Bender and Farach-Colton, The LCA Problem
Revisited, 2000.)"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..aggregates import Operation

Ints = np.ndarray[Any, np.dtype[np.int64]]
Numbers = np.ndarray[Any, np.dtype[Any]]


def fold(values: pa.Array, first: Ints, length: Ints, operation: Operation) -> pa.Array:
    """Fold each range of the values, nulls passed over; null where a range holds nothing else."""
    if operation == "sum":
        return _sums(values, first, length)
    return _extremes(values, first, length, least=operation == "min")


def _sums(values: pa.Array, first: Ints, length: Ints) -> pa.Array:
    empty = None
    if values.null_count:
        empty = _range_sums(np.asarray(values.is_valid()).astype(np.int64), first, length) == 0
    if pa.types.is_decimal(values.type):
        return _decimal_sums(values, first, length, empty)
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    sums = _range_sums(plain, first, length)
    if plain.dtype.kind == "i":
        _refuse_overflow(plain, sums, first, length)
    return pa.array(sums, type=values.type, mask=empty)


def _range_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    if values.dtype.kind != "i":
        return _block_sums(values, first, length)
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    differences: Numbers = totals[first + length] - totals[first]
    return differences


def _block_sums(values: Numbers, first: Ints, length: Ints) -> Numbers:
    sums = np.zeros(len(first), dtype=values.dtype)
    at, block = first.copy(), values
    with np.errstate(invalid="ignore"):
        for digit in range(int(length.max(initial=0)).bit_length()):
            here = np.flatnonzero((length >> digit) & 1)
            sums[here] += block[at[here]]
            at[here] += 1 << digit
            block = block[: -(1 << digit)] + block[1 << digit :]
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


def _decimal_sums(values: pa.Array, first: Ints, length: Ints, empty: Numbers | None) -> pa.Array:
    # A decimal128 is a 16-byte integer: its four 32-bit digits are summed apart, and the carries
    # joined at the end.
    plain = values.fill_null(0)
    digits = np.frombuffer(plain.buffers()[1], dtype="<u4")
    digits = (
        digits[4 * plain.offset : 4 * (plain.offset + len(plain))].reshape(-1, 4).astype(np.int64)
    )
    digits[:, 3] = digits[:, 3].astype(np.uint32).view(np.int32)
    sums = [_range_sums(np.ascontiguousarray(digits[:, i]), first, length) for i in range(4)]
    out = np.empty((len(first), 4), dtype=np.uint32)
    carry = np.zeros(len(first), dtype=np.int64)
    for i in range(4):
        carry += sums[i]
        out[:, i] = (carry & 0xFFFFFFFF).astype(np.uint32)
        carry >>= 32
    validity = None if empty is None else pa.array(~empty).buffers()[1]
    return pa.Array.from_buffers(values.type, len(first), [validity, pa.py_buffer(out.tobytes())])


def _extremes(values: pa.Array, first: Ints, length: Ints, *, least: bool) -> pa.Array:
    order = _order(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    if least:
        rank = len(values) - 1 - rank
    rank[~np.asarray(values.is_valid())] = -1
    best = np.full(len(first), -1, dtype=np.int64)
    block, digits = rank, np.frexp(length.astype(np.float64))[1] - 1
    for digit in range(int(digits.max(initial=-1)) + 1):
        here = np.flatnonzero(digits == digit)
        best[here] = np.maximum(
            block[first[here]], block[first[here] + length[here] - (1 << digit)]
        )
        block = np.maximum(block[: -(1 << digit)], block[1 << digit :])
    place = len(values) - 1 - best if least else best
    chosen = order[np.minimum(place, len(values) - 1)]
    return values.take(pa.array(chosen, mask=best < 0))


def _order(values: pa.Array) -> Ints:
    keys = {f"{i}": part for i, part in enumerate(_sort_keys(values))}
    sorting = [(name, "ascending") for name in keys]
    order: Ints = pc.sort_indices(pa.table(keys), sort_keys=sorting).to_numpy().astype(np.int64)
    return order


def _sort_keys(values: pa.Array) -> list[pa.Array]:
    # Spark puts null below all values inside a struct, and NaN above all numbers.
    if not pa.types.is_struct(values.type):
        return [values.is_valid(), values]
    return [values.is_valid(), *[key for field in values.flatten() for key in _sort_keys(field)]]
