"""Append to a Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from .batch import Batch
from .sink import Outcome


@dataclass(frozen=True, kw_only=True)
class Append:
    """Append each batch's rows."""

    path: str
    partition_by: Sequence[str] = ()
    step: str = "append"
    evolve: bool = False

    def write(self, frame: DataFrame, batch: Batch, *, rows_out: int | None = None) -> Outcome:
        """Append the rows, or skip them when the table already has this batch."""
        raise NotImplementedError
