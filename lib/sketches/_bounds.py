"""What the bounds of several sketches have in common: their width, and numbers out of bytes."""

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
    """Return the little-endian number in bytes first to last, counted from 1.

    A decimal; null where there are no such bytes.
    """
    backwards = range(last, first - 1, -1)
    digits = [F.hex(F.substring(sketch, at, 1)) for at in backwards]
    return F.conv(F.concat(*digits), 16, 10).cast("decimal(20, 0)")
