"""One batch into several tables, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from ..commit.batch import Batch
from ..commit.outcome import Outcome
from ..errors import ArgumentError
from .sink import ROWS, Sink, sole


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A sink for rows that are made of a batch's rows: its minutes, or hours made of minutes.

    They are made once and kept while `sink` writes them, to several tables where it is a `FanOut`.
    """

    rows: Callable[[DataFrame], DataFrame]
    sink: Sink

    @property
    def path(self) -> str:
        """The Delta table's path."""
        return self.sink.path

    @property
    def step(self) -> str:
        """The step's name in the application id."""
        return self.sink.step

    def tables(self) -> list[tuple[str, str]]:
        """List the tables of the sink."""
        return self.sink.tables()

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Make the rows and write them; their number is not known beforehand."""
        made = self.rows(sole(frames)).persist()
        try:
            return self.sink.write({ROWS: made}, batch)
        finally:
            made.unpersist()


@dataclass(frozen=True, kw_only=True)
class FanOut:
    """Write each batch into every one of several tables, in the order given; the last is the job's target.

    Each table has its own commit and stamp, so a batch that runs again after a crash between two of
    them is written to those alone that miss it. A reader may see the first tables a batch ahead of
    the last; a batch that the last one has is in all.

    Raises ArgumentError, at construction, for no sinks, or two of one path and step; and what the
    sinks raise."""

    sinks: Sequence[Sink]

    def __post_init__(self) -> None:
        places = self.tables()
        if not places or len(set(places)) < len(places):
            raise ArgumentError(
                f"sinks are {places}.",
                "at least one, and each with a path or a step of its own.",
                'step="hours"',
            )

    @property
    def path(self) -> str:
        """The target's path."""
        return self.sinks[-1].path

    @property
    def step(self) -> str:
        """The target's step."""
        return self.sinks[-1].step

    def tables(self) -> list[tuple[str, str]]:
        """List the tables of all sinks."""
        return [place for sink in self.sinks for place in sink.tables()]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch to each table that does not have it; the outcome is the target's."""
        return [sink.write(frames, batch, rows_out=rows_out) for sink in self.sinks][-1]
