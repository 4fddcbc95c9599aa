"""The hash functions of Spark and its sketches in plain Python, by `xxhash` and `mmh3`."""

from __future__ import annotations

import math
import struct
from typing import Literal

import mmh3
import xxhash

from ..errors import ColumnTypeError

IntegerWidth = Literal["bigint", "int"]

_SPARK_SEED = 42
_SKETCH_SEED = 9001


def spark_hash(value: str | bytes | int | float, *, integers: IntegerWidth = "bigint") -> int:
    """Return the result of Spark's `xxhash64` for a value, as an unsigned integer.

    Values are text, bytes, floats (doubles), booleans and integers. `integers` is the type of the
    column: "bigint", or "int" for int, smallint, tinyint and date (days since 1970). Pass a
    timestamp as its microseconds since 1970 (bigint). Decimals, structs and arrays are not
    supported.

    Raises:
        ColumnTypeError: for a value of another type.

    Source: Collet, XXH64.

    >>> spark.sql("select xxhash64('tide')").head()[0] % 2**64 == spark_hash("tide")
    True
    """
    return xxhash.xxh64_intdigest(_hashed_bytes(value, integers), _SPARK_SEED)


def sketch_hash(hashed: int) -> tuple[int, int]:
    """Return the low and high half of the hash that DataSketches computes of a 64-bit number.

    Source: Appleby, MurmurHash3_x64_128.
    """
    low, high = mmh3.hash64(struct.pack("<Q", hashed), _SKETCH_SEED, signed=False)
    return low, high


def _hashed_bytes(value: object, integers: IntegerWidth) -> bytes:
    """Return the bytes that Spark hashes for a value."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, bool):
        return struct.pack("<i", value)
    if isinstance(value, int):
        return struct.pack("<q" if integers == "bigint" else "<i", value)
    if isinstance(value, float):
        # Spark hashes 0.0 for -0.0, and the canonical NaN for any NaN.
        return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
    raise ColumnTypeError(
        f"invalid type of value: {type(value).__name__}",
        "str, bytes, int, float or bool",
        "the microseconds since 1970 of a timestamp; the days since 1970 of a date and "
        "integers='int'",
    )
