"""Conversion of stored HyperLogLog sketches to the Python package `datasketch`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, SetupError
from ._envelope import decode_sketch_bytes
from .hashing import IntegerWidth, sketch_hash, spark_hash
from .hyperloglog import KIND

if TYPE_CHECKING:
    from datasketch import HyperLogLogPlusPlus

MAX_PRECISION = 16
"""The maximum precision of datasketch."""
# A sketch changes its mode as it grows: a list, then a hash set, then registers.
_LIST = 8
_SET = 9
_REGISTERS = 10
_LIST_OFFSET = 8
_SET_OFFSET = 12
_REGISTERS_OFFSET = 40
# A coupon: 26 bits of register, then 6 bits of rank.
_RANK_SHIFT = 26


def to_datasketch_hll(stored: bytes, *, integers: IntegerWidth = "bigint") -> HyperLogLogPlusPlus:
    """Convert a stored sketch of `approx_count_distinct` to a `datasketch.HyperLogLogPlusPlus`.

    Both have the same registers and the same hash function, so `update` and `merge` in Python
    change the same registers as Spark. `update` accepts text, bytes, floats, booleans and integers;
    `integers` is the type of integers in Spark (see `tidegate.sketches.hashing.spark_hash`). The
    libraries estimate the count from equal registers by different formulas, both within the error
    of `approx_count_distinct`. The estimates differ more for few values, which Spark counts one by
    one.

    Requires the package datasketch and a precision of at most 16.

    Raises:
        ArgumentError: for bytes that are not a valid sketch, and for a higher precision.
        SetupError: without the package.

    >>> from tidegate.sketches import approx_count_distinct
    >>> partial = approx_count_distinct("user").partial(F.col("event_time"))
    >>> row = clicks.groupBy().agg(partial.alias("users")).head()
    >>> users = to_datasketch_hll(row.users)
    >>> users.update("another user")
    >>> round(users.count())
    3
    """
    HyperLogLog = import_datasketch().HyperLogLogPlusPlus  # noqa: N806 (a class)
    parameters, sketch = decode_sketch_bytes(stored, KIND)
    precision = int(parameters["precision"])
    if precision > MAX_PRECISION:
        raise ArgumentError(
            f"invalid precision of the sketch: {precision}",
            f"at most {MAX_PRECISION}, the limit of datasketch",
            f"approx_count_distinct(..., precision={MAX_PRECISION})",
        )
    hash_function = partial(register_hash, precision=precision, integers=integers)
    return HyperLogLog(reg=read_registers(sketch, precision), hashfunc=hash_function)


def import_datasketch() -> Any:
    """Return the package datasketch; raise SetupError if it is not installed."""
    try:
        import datasketch
    except ImportError as fault:
        raise SetupError(
            "package datasketch is not installed",
            "MinHash and HyperLogLog conversion require it.",
            "pip install datasketch",
        ) from fault
    return datasketch


def register_hash(
    value: str | bytes | int | float, *, precision: int, integers: IntegerWidth
) -> int:
    """Return a 64-bit hash from which datasketch derives the register and rank that Spark has.

    Spark derives the register from the low bits of one half of its hash, and the rank from the
    leading zeros of the other half; datasketch derives both from one number.
    """
    low, high = sketch_hash(spark_hash(value, integers=integers))
    register_bits = (1 << precision) - 1
    return high & ~register_bits | low & register_bits


def read_registers(sketch: bytes, precision: int) -> NDArray[np.int8]:
    """Return the registers of a DataSketches HLL sketch with 8-bit registers in updatable form.

    A sketch stores up to seven values in a list, more values in a hash set, and many values in
    registers. List and set contain coupons: a register and its rank, or 0 for an empty slot.

    Source: Apache DataSketches, HLL `PreambleUtil`.
    """
    size = 1 << precision
    mode = sketch[7]
    if mode == _REGISTERS and len(sketch) >= _REGISTERS_OFFSET + size:
        ranks = np.frombuffer(sketch, np.uint8, size, _REGISTERS_OFFSET).astype(np.int64)
    elif mode == _LIST:
        ranks = _ranks_of_coupons(sketch, _LIST_OFFSET, size)
    elif mode == _SET:
        ranks = _ranks_of_coupons(sketch, _SET_OFFSET, size)
    else:
        raise ArgumentError(
            f"invalid sketch: mode {mode} with {len(sketch)} bytes",
            "a list, a hash set or 8-bit registers",
        )
    # datasketch cannot store a higher rank, which one in 2^48 or more values has.
    return np.minimum(ranks, 65 - precision).astype(np.int8)


def _ranks_of_coupons(sketch: bytes, start: int, size: int) -> NDArray[np.int64]:
    coupons = np.frombuffer(sketch, "<u4", offset=start)
    ranks = np.zeros(size, np.int64)
    np.maximum.at(ranks, coupons & (size - 1), coupons >> _RANK_SHIFT)
    return ranks
