"""One batch into several tables, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame

from ..commit.batch import Batch
from ..commit.outcome import Outcome
from ..errors import ArgumentError
from ..frames import ROWS, sole
from ._wrapping import Wrapping
from .sink import Sink, remade, require_fits


@dataclass(frozen=True, kw_only=True)
class Mapped(Wrapping):
    """Write rows that are made of a batch's rows, such as its minutes, or hours made of minutes.

    The rows are made once and kept while `sink` writes them, to several tables where it is a
    `FanOut`.

    >>> from tidegate.sinks import Append
    >>> Mapped(rows=lambda clicks: clicks.where("ms > 1000"), sink=Append("/data/slow")).path
    '/data/slow'
    """

    rows: Callable[[DataFrame], DataFrame]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Make the rows and write them; their number is not known beforehand."""
        made = self.rows(sole(frames)).persist()
        try:
            return self.sink.write({ROWS: made}, batch)
        finally:
            made.unpersist()


@dataclass(frozen=True)
class FanOut:
    """Write each batch to the sinks in `also`, in the order given, and then to the job's target.

    Each table has its own commit and stamp: a batch that runs again after a crash between two
    tables is written only to those that miss it. A reader may see the other tables a batch ahead of
    the target; a batch that the target has is in all of them.

    Raises:
        ArgumentError: at construction, for two tables of one path and step.
        And what the sinks raise.

    >>> from tidegate.sinks import Append
    >>> FanOut(Append("/data/clicks"), also=[Append("/data/archive", step="archive")]).tables()
    [('/data/archive', 'archive'), ('/data/clicks', 'append')]
    """

    target: Sink
    _: KW_ONLY
    also: Sequence[Sink]

    def __post_init__(self) -> None:
        tables = self.tables()
        if len(set(tables)) < len(tables):
            raise ArgumentError(
                f"the tables and their steps are {tables}.",
                "for each table a path or a step of its own.",
                'step="hours"',
            )

    @property
    def path(self) -> str:
        """The target's path."""
        return self.target.path

    @property
    def step(self) -> str:
        """The target's step."""
        return self.target.step

    @property
    def remade(self) -> frozenset[str]:
        """The steps that the sinks make anew by themselves."""
        return frozenset().union(*(remade(sink) for sink in (*self.also, self.target)))

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of all sinks, those of the target last."""
        return [table for sink in (*self.also, self.target) for table in sink.tables()]

    def require_fits(self, frames: Mapping[str, DataFrame]) -> None:
        """Refuse rows that one of the sinks refuses, of those that know it before a batch."""
        for sink in (*self.also, self.target):
            require_fits(sink, lambda: frames)

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch to each table that does not have it; the outcome is the target's."""
        for sink in self.also:
            sink.write(frames, batch, rows_out=rows_out)
        return self.target.write(frames, batch, rows_out=rows_out)
