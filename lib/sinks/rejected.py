"""Rows that did not get into the target: dead letters, late rows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from .batch import Batch
from .sink import Outcome


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Append rejected rows to their own table; step is "dead" or "late"."""

    path: str
    step: str = "dead"

    def write(self, frame: DataFrame, batch: Batch, *, expected: int | None = None) -> Outcome:
        """Append the rows; an AccountingError before writing if there are not `expected` of them."""
        raise NotImplementedError
