"""What a merge writes, guarded: nothing, where a row is no longer the one that was read."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from ..columns import escaped, quoted_in
from .options import CHANGED

OLD = "old"
"""The alias of the table's rows in a merge."""
NEW = "new"
"""The alias of the rows that are merged into the table."""


def set_to(names: Iterable[str]) -> dict[str, str | Column]:
    """Return what a merge sets these columns to: the values of the new row."""
    return {escaped(name): quoted_in(NEW, name) for name in names}


def guarded(value: Column, unchanged: Column, kind: str | DataType) -> Column:
    """Return a value of this type, which makes the whole merge fail where `unchanged` is false.

    So a row that another writer has changed between its reading and the merge is not replaced.
    """
    # The comparison stands in a value, since Delta evaluates the conditions of a merge's clauses
    # also for rows that the clauses do not concern.
    refuse = F.raise_error(F.lit(CHANGED)).cast(kind)
    return F.when(unchanged, value).otherwise(refuse)
