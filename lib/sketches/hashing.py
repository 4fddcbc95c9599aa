"""The hashes that Spark's sketches are made with, in plain Python, for values that Python adds to
them."""

from __future__ import annotations

import math
import struct
from typing import Literal

from ..errors import ColumnTypeError

Integers = Literal["bigint", "int"]

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_SPARK_SEED, _SKETCH_SEED = 42, 9001


def spark_hash(value: str | bytes | int | float, *, integers: Integers = "bigint") -> int:
    """Return what Spark's `xxhash64` gives for a value, as an unsigned number.

    Text (as UTF-8) and bytes; floats as doubles; booleans; whole numbers as `integers` says:
    "bigint", or "int" for columns of int, smallint, tinyint and dates (days since 1970). A
    timestamp is its microseconds since 1970, a bigint. Decimals, structs and arrays have hashes of
    their own in Spark, which this does not know.

    >>> spark.sql("select xxhash64('tide'), xxhash64(7L)").head()[:] == tuple(
    ...     hashed - 2**64 if hashed >= 2**63 else hashed for hashed in map(spark_hash, ("tide", 7))
    ... )
    True
    """
    if isinstance(value, str):
        return xxhash64(value.encode())
    if isinstance(value, bytes | bytearray):
        return xxhash64(bytes(value))
    if isinstance(value, bool):
        return xxhash64(struct.pack("<i", value))
    if isinstance(value, int):
        return xxhash64(struct.pack("<q" if integers == "bigint" else "<i", value))
    if isinstance(value, float):
        # Spark counts 0.0 and -0.0 as one, and every NaN as another.
        return xxhash64(
            struct.pack("<d", 0.0 if value == 0 else math.nan if math.isnan(value) else value)
        )
    raise ColumnTypeError(
        f"{value!r} is a {type(value).__name__}.",
        "text, bytes, a whole number, a float or a boolean.",
        "the microseconds since 1970 of a timestamp, the days since 1970 of a date with "
        "integers='int'.",
    )


def xxhash64(data: bytes, seed: int = _SPARK_SEED) -> int:
    """Hash bytes. Source: Collet, XXH64."""
    at, end = 0, len(data)
    if end >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= end:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        hashed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            hashed = ((hashed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        hashed = seed + _P5
    hashed = (hashed + end) & _MASK
    while at + 8 <= end:
        hashed = (
            _rotated(hashed ^ _round(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4
        ) & _MASK
        at += 8
    if at + 4 <= end:
        hashed = (
            _rotated(hashed ^ (struct.unpack_from("<I", data, at)[0] * _P1 & _MASK), 23) * _P2 + _P3
        ) & _MASK
        at += 4
    for byte in data[at:]:
        hashed = _rotated(hashed ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    hashed = (hashed ^ hashed >> 33) * _P2 & _MASK
    hashed = (hashed ^ hashed >> 29) * _P3 & _MASK
    return hashed ^ hashed >> 32


def sketch_hash(hashed: int) -> tuple[int, int]:
    """Hash a 64-bit number to the 128 bits that DataSketches works on. Source: Appleby,
    MurmurHash3_x64_128."""
    first = _SKETCH_SEED ^ _rotated(hashed * _C1 & _MASK, 31) * _C2 & _MASK
    low, high = first ^ 8, _SKETCH_SEED ^ 8
    low = (low + high) & _MASK
    high = (high + low) & _MASK
    low, high = _mixed(low), _mixed(high)
    low = (low + high) & _MASK
    return low, (high + low) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 64 - by) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
