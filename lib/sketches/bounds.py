"""What the bounds of several sketches have in common: how wide they are, and the numbers that
sketches hold."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..errors import ArgumentError


def require_deviations(deviations: int) -> None:
    """Refuse bounds that are not 1, 2 or 3 standard errors wide."""
    if deviations not in (1, 2, 3):
        raise ArgumentError(
            f"deviations is {deviations}.", "1, 2 or 3 standard errors.", "deviations=2"
        )


def unsigned(sketch: Column, first: int, last: int) -> Column:
    """Read the bytes from first to last, counted from 1, as a little-endian number; null where
    there are none."""
    digits = [F.hex(F.substring(sketch, at, 1)) for at in range(last, first - 1, -1)]
    return F.conv(F.concat(*digits), 16, 10).cast("decimal(20, 0)")
