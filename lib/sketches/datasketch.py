"""What Spark counted, for plain Python: HyperLogLog registers as the package `datasketch` has
them."""

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
_LIST, _SET, _REGISTERS = 8, 9, 10


def to_datasketch(stored: bytes, *, integers: Integers = "bigint") -> HyperLogLogPlusPlus:
    """Turn a stored partial of `distinct` into a `datasketch.HyperLogLogPlusPlus` with the same registers.

    Its hash function is Spark's, so a value that Python adds by `update` lands where Spark would
    have put it, and
    merging two of them is merging in Spark: register for register. It takes text, bytes, floats,
    booleans and whole numbers; `integers` says whether Spark saw the latter as bigint or as int
    (see `tidegate.sketches.hashing.spark_hash`). The two libraries estimate a count from equal
    registers by different formulas, both within the error of `distinct`, and differ more while
    there are few values, which Spark still knows one by one.

    Needs the package datasketch, and a precision of at most 16. Raises ArgumentError for bytes that
    are not sound or of another precision, SetupError without the package.

    >>> from tidegate.sketches import distinct
    >>> row = clicks.groupBy().agg(distinct("user").partial(F.col("event_time")).alias("users")).head()
    >>> users = to_datasketch(row.users)
    >>> users.update("somebody else")
    >>> round(users.count())
    3
    """
    found = imported().HyperLogLogPlusPlus
    parameters, sketch = unsealed(stored, KIND)
    precision = int(parameters["precision"])
    if precision > MOST_PRECISION:
        raise ArgumentError(
            f"The sketch has precision {precision}.",
            f"at most {MOST_PRECISION}, as datasketch has it.",
            f"distinct(..., precision={MOST_PRECISION})",
        )
    hashed = partial(register_hash, precision=precision, integers=integers)
    return found(reg=registers(sketch, precision), hashfunc=hashed)


def imported() -> Any:
    """Return the package datasketch, or say how to get it."""
    try:
        import datasketch
    except ImportError as fault:
        raise SetupError(
            "datasketch is not installed.", "datasketch 2.", "pip install datasketch"
        ) from fault
    return datasketch


def register_hash(value: str | bytes | int | float, *, precision: int, integers: Integers) -> int:
    """Return the 64 bits from which datasketch takes the register and the rank that Spark's sketch takes.

    DataSketches takes the register from the low bits of one half of its hash, and the rank from the
    leading zeros of the other; datasketch takes both from one number."""
    low, high = sketch_hash(spark_hash(value, integers=integers))
    below = (1 << precision) - 1
    return high & ~below | low & below


def registers(sketch: bytes, precision: int) -> NDArray[np.int8]:
    """Return a DataSketches HLL sketch's registers, of 8 bits in its updatable form.

    Up to seven values stand in a list, more of them in a hash set, both as coupons: 26 bits of
    register and 6 of rank, 0 where there is none. Many values stand in registers. Source: Apache
    DataSketches, HLL `PreambleUtil`."""
    size = 1 << precision
    mode = sketch[7]
    if mode == _REGISTERS and len(sketch) >= 40 + size:
        ranks = np.frombuffer(sketch, np.uint8, size, 40).astype(np.int64)
    elif mode in (_LIST, _SET):
        coupons = np.frombuffer(sketch, "<u4", offset=8 if mode == _LIST else 12)
        ranks = np.zeros(size, np.int64)
        np.maximum.at(ranks, coupons & (size - 1), coupons >> 26)
    else:
        raise ArgumentError(
            f"The sketch has mode {mode} and {len(sketch)} bytes.",
            "a list, a set or 8-bit registers.",
        )
    # A rank beyond the bits that datasketch has for it: one value of 2^48 or more.
    return np.minimum(ranks, 65 - precision).astype(np.int8)
