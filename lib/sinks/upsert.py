"""Upsert into a Delta table by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from .batch import Batch
from .sink import Outcome

if TYPE_CHECKING:
    from ..aggregates import Aggregate


@dataclass(frozen=True, kw_only=True)
class Upsert:
    """Replace rows by key, or add partials up."""

    path: str
    keys: Sequence[str]
    aggs: Mapping[str, Aggregate] | None = None
    partition_by: Sequence[str] = ()
    step: str = "upsert"
    evolve: bool = False

    def write(self, frame: DataFrame, batch: Batch, *, rows_out: int | None = None) -> Outcome:
        """Upsert the rows, or skip them when the table already has this batch."""
        raise NotImplementedError
