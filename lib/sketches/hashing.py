"""The hashes of Spark's sketches in plain Python, so that Python can add values to a sketch."""

from __future__ import annotations

import math
import struct
from typing import Literal

from ..errors import ColumnTypeError

Integers = Literal["bigint", "int"]

_MASK = 2**64 - 1
# XXH64's primes, by the names that its specification has for them.
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_STRIPE = 32
# MurmurHash3's constants, likewise.
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_SPARK_SEED = 42
_SKETCH_SEED = 9001


def spark_hash(value: str | bytes | int | float, *, integers: Integers = "bigint") -> int:
    """Return what Spark's `xxhash64` gives for a value, as an unsigned number.

    Values are text (as UTF-8), bytes, floats (as doubles), booleans and whole numbers, which
    `integers` says the type of: "bigint", or "int" for columns of int, smallint, tinyint and dates
    (days since 1970). A timestamp is its microseconds since 1970, a bigint. Decimals, structs and
    arrays have hashes of their own in Spark, which this function does not know.

    Raises:
        ColumnTypeError: for a value of another type.

    >>> spark.sql("select xxhash64('tide')").head()[0] % 2**64 == spark_hash("tide")
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
        return xxhash64(struct.pack("<d", _normalised(value)))
    raise ColumnTypeError(
        f"{value!r} is a {type(value).__name__}.",
        "text, bytes, a whole number, a float or a boolean.",
        "the microseconds since 1970 of a timestamp, the days since 1970 of a date with "
        "integers='int'.",
    )


def xxhash64(data: bytes, seed: int = _SPARK_SEED) -> int:
    """Return the hash of bytes, unsigned. Source: Collet, XXH64."""
    whole = len(data) // _STRIPE * _STRIPE
    hashed = _stripes_hash(data[:whole], seed) if whole else seed + _P5
    hashed = (hashed + len(data)) & _MASK
    hashed = _with_rest(hashed, data[whole:])
    hashed = (hashed ^ hashed >> 33) * _P2 & _MASK
    hashed = (hashed ^ hashed >> 29) * _P3 & _MASK
    return hashed ^ hashed >> 32


def sketch_hash(hashed: int) -> tuple[int, int]:
    """Return the two halves, low and high, of the hash that DataSketches makes of a 64-bit number.

    Source: Appleby, MurmurHash3_x64_128.
    """
    length = 8
    high = _SKETCH_SEED ^ length
    low = (_SKETCH_SEED ^ _rotated(hashed * _C1 & _MASK, 31) * _C2 & _MASK) ^ length
    low = (low + high) & _MASK
    high = (high + low) & _MASK
    low = _mixed(low)
    high = _mixed(high)
    low = (low + high) & _MASK
    high = (high + low) & _MASK
    return low, high


def _normalised(value: float) -> float:
    """Return the number that Spark hashes: 0.0 for -0.0, and one NaN for every NaN."""
    if value == 0:
        return 0.0
    return math.nan if math.isnan(value) else value


def _stripes_hash(stripes: bytes, seed: int) -> int:
    lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
    for words in struct.iter_unpack("<4Q", stripes):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    hashed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        hashed = ((hashed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return hashed


def _with_rest(hashed: int, rest: bytes) -> int:
    """Return the hash with the bytes that fill no stripe: words of 8 bytes, one of 4, the rest."""
    at = 0
    while at + 8 <= len(rest):
        word = int.from_bytes(rest[at : at + 8], "little")
        hashed = (_rotated(hashed ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(rest):
        word = int.from_bytes(rest[at : at + 4], "little")
        hashed = (_rotated(hashed ^ word * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in rest[at:]:
        hashed = _rotated(hashed ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    return hashed


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 64 - by) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
