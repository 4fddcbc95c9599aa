"""A sink in front of a job's own, for crashes inside the tests' own process."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from lib.sinks import Batch, Outcome, Sink


class CrashError(Exception):
    """The process dies here."""


@dataclass
class Crashing:
    """A sink that dies once, after its second batch is in its table and before Spark notes it as done."""

    inner: Sink
    writes: int = 0

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def step(self) -> str:
        return self.inner.step

    def write(self, frame: DataFrame, batch: Batch, *, rows_out: int | None = None) -> Outcome:
        outcome = self.inner.write(frame, batch, rows_out=rows_out)
        self.writes += 1
        if self.writes == 2:
            raise CrashError
        return outcome
