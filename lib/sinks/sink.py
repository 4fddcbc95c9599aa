"""What a sink is."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from ..commit.batch import Batch
from ..commit.outcome import Outcome


class Sink(Protocol):
    """A table that takes each batch exactly once."""

    @property
    def path(self) -> str:
        """The Delta table's path."""

    @property
    def step(self) -> str:
        """The step's name in the application id; no two steps of a job share one."""

    def write(self, frame: DataFrame, batch: Batch, *, rows_out: int | None = None) -> Outcome:
        """Write the batch's rows, or skip them when the table already has this batch."""
