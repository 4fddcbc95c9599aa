"""Sinks in front of a job's own, for what may happen while it writes, inside the tests' own
process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidegate.commit import Batch
from tidegate.sinks import Outcome, Sink


class CrashError(Exception):
    """The process dies here."""


@dataclass
class InFront:
    """A sink that hands a job's batches on to the job's own."""

    inner: Sink

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def step(self) -> str:
        return self.inner.step

    def tables(self) -> list[tuple[str, str]]:
        return self.inner.tables()


@dataclass
class Crashing(InFront):
    """A sink that dies once, after its second batch is in its table and before Spark notes it as
    done."""

    writes: int = 0

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        outcome = self.inner.write(frames, batch, rows_out=rows_out)
        self.writes += 1
        if self.writes == 2:
            raise CrashError
        return outcome
