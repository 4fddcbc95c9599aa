"""Spark's distinct counts in plain Python: HyperLogLog registers for the package `datasketch`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, SetupError
from .hashing import Integers, sketch_hash, spark_hash
from .hyperloglog import KIND
from .stored import unsealed

if TYPE_CHECKING:
    from datasketch import HyperLogLogPlusPlus

MOST_PRECISION = 16
"""What datasketch goes up to."""
# The modes of a sketch, which change as values come: a list, a hash set, registers.
_LIST = 8
_SET = 9
_REGISTERS = 10
_LIST_AT = 8
_SET_AT = 12
_REGISTERS_AT = 40
# A coupon: 26 bits of register, then 6 bits of rank.
_RANK_SHIFT = 26


def to_datasketch(stored: bytes, *, integers: Integers = "bigint") -> HyperLogLogPlusPlus:
    """Turn a stored partial of `distinct` into a `datasketch.HyperLogLogPlusPlus`.

    The two have the same registers and the same hash function: a value that Python adds by
    `update` lands where Spark would have put it, and merging in Python is merging in Spark,
    register for register. `update` takes text, bytes, floats, booleans and whole numbers;
    `integers` says whether Spark saw whole numbers as bigint or as int (see
    `tidegate.sketches.hashing.spark_hash`). The two libraries estimate a count from equal registers
    by different formulas, both within the error of `distinct`. They differ more while there are few
    values, which Spark still knows one by one.

    Needs the package datasketch, and a precision of at most 16.

    Raises:
        ArgumentError: for bytes that are no sound sketch, and for a greater precision.
        SetupError: without the package.

    >>> from tidegate.sketches import distinct
    >>> partial = distinct("user").partial(F.col("event_time"))
    >>> row = clicks.groupBy().agg(partial.alias("users")).head()
    >>> users = to_datasketch(row.users)
    >>> users.update("somebody else")
    >>> round(users.count())
    3
    """
    HyperLogLog = imported().HyperLogLogPlusPlus  # noqa: N806 (a class)
    parameters, sketch = unsealed(stored, KIND)
    precision = int(parameters["precision"])
    if precision > MOST_PRECISION:
        raise ArgumentError(
            f"The sketch has precision {precision}.",
            f"at most {MOST_PRECISION}, as datasketch has it.",
            f"distinct(..., precision={MOST_PRECISION})",
        )
    hashed = partial(register_hash, precision=precision, integers=integers)
    return HyperLogLog(reg=registers(sketch, precision), hashfunc=hashed)


def imported() -> Any:
    """Return the package datasketch, and raise SetupError where it is not installed."""
    try:
        import datasketch
    except ImportError as fault:
        raise SetupError(
            "datasketch is not installed.", "datasketch 2.", "pip install datasketch"
        ) from fault
    return datasketch


def register_hash(value: str | bytes | int | float, *, precision: int, integers: Integers) -> int:
    """Return 64 bits from which datasketch takes the same register and rank as Spark's sketch.

    Spark's sketch takes the register from the low bits of one half of its hash, and the rank from
    the leading zeros of the other half; datasketch takes both from one number.
    """
    low, high = sketch_hash(spark_hash(value, integers=integers))
    register_bits = (1 << precision) - 1
    return high & ~register_bits | low & register_bits


def registers(sketch: bytes, precision: int) -> NDArray[np.int8]:
    """Return the registers of a DataSketches HLL sketch, of 8 bits in its updatable form.

    Up to seven values stand in a list and more of them in a hash set, both as coupons: a register
    and a rank, 0 where there is none. Many values stand in registers.

    Source: Apache DataSketches, HLL `PreambleUtil`.
    """
    size = 1 << precision
    mode = sketch[7]
    if mode == _REGISTERS and len(sketch) >= _REGISTERS_AT + size:
        ranks = np.frombuffer(sketch, np.uint8, size, _REGISTERS_AT).astype(np.int64)
    elif mode == _LIST:
        ranks = _ranks_of_coupons(sketch, _LIST_AT, size)
    elif mode == _SET:
        ranks = _ranks_of_coupons(sketch, _SET_AT, size)
    else:
        raise ArgumentError(
            f"The sketch has mode {mode} and {len(sketch)} bytes.",
            "a list, a set or 8-bit registers.",
        )
    # datasketch has no bits for a rank beyond this one, which one value of 2^48 or more has.
    return np.minimum(ranks, 65 - precision).astype(np.int8)


def _ranks_of_coupons(sketch: bytes, start: int, size: int) -> NDArray[np.int64]:
    coupons = np.frombuffer(sketch, "<u4", offset=start)
    ranks = np.zeros(size, np.int64)
    np.maximum.at(ranks, coupons & (size - 1), coupons >> _RANK_SHIFT)
    return ranks
