"""Write each batch to several sinks, or rows derived from it to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import require_function
from ..commit.batch import BatchPlan, CommitContext
from ..commit.protocol import Outcome
from ..errors import ArgumentError, ColumnTypeError
from ..input_frames import ROWS, only_frame
from .base import AcceptedRows, Sink, WrappingSink, require_sink


@dataclass(frozen=True, kw_only=True)
class MapRows(WrappingSink):
    """Write rows that a function derives from each batch.

    The derived rows are cached while `sink` writes them, so that a FanOut computes them once.

    adds_columns: whether the function only adds columns to each row. Then the rows that `sink`
        cannot store are dead letters, by the columns that they have before.

    >>> from tidegate.sinks import Append
    >>> MapRows(rows=lambda clicks: clicks.where("ms > 1000"), sink=Append("/data/slow")).path
    '/data/slow'
    """

    plan_name: ClassVar[str] = "map_rows"
    supports_backfill = True

    sink: Sink
    rows: Callable[[DataFrame], DataFrame]
    adds_columns: bool = False

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the inner sink cannot store a row, if the function only adds columns."""
        return self.sink.rejection(rows) if self.adds_columns else None

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of the derived rows, if the function only adds columns."""
        return self.adds_columns and self.sink.check_schema(
            lambda: {ROWS: self.rows(only_frame(frames()))}
        )

    def __post_init__(self) -> None:
        require_sink(self.sink)
        require_function(self.rows, "rows", "rows=lambda rows: rows.where('ms > 1000')")

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Apply the function and write its rows, whose number is unknown in advance."""
        mapped_rows = self.rows(only_frame(frames)).persist()
        try:
            return self.sink.write({ROWS: mapped_rows}, batch)
        finally:
            mapped_rows.unpersist()


@dataclass(frozen=True)
class FanOut(WrappingSink):
    """Write each batch to `other_sinks`, in their order, and then to the target.

    Each table has its own commit and stamp. If a batch runs again after a failure, only tables that
    do not contain it are written. The other tables may be one batch ahead of the target, never
    behind.

    Raises:
        ArgumentError: at construction, if two tables have the same path and output.
        TidegateError: as the sinks raise.

    >>> from tidegate.sinks import Append
    >>> archive = Append("/data/archive", output="archive")
    >>> FanOut(Append("/data/clicks"), other_sinks=[archive]).tables()
    [('/data/archive', 'archive'), ('/data/clicks', 'append')]
    """

    plan_name: ClassVar[str] = "fan_out"
    supports_backfill = True  # The inner sinks decide.

    target: Sink
    _: KW_ONLY
    other_sinks: Sequence[Sink]

    def __post_init__(self) -> None:
        require_sink(self.target, "target")
        if not isinstance(self.other_sinks, Sequence) or isinstance(self.other_sinks, str):
            raise ColumnTypeError(
                f"invalid other_sinks: {self.other_sinks!r}", "a list of sinks", "other_sinks=[...]"
            )
        for sink in self.other_sinks:
            require_sink(sink, "sink in other_sinks")
        tables = self.tables()
        if len(set(tables)) < len(tables):
            raise ArgumentError(
                f"invalid other_sinks: tables {tables}",
                "a different path or output for each table",
                'output="hours"',
            )

    @property
    def inner_sinks(self) -> Sequence[Sink]:
        """The other sinks, then the target."""
        return (*self.other_sinks, self.target)

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why one of the sinks cannot store a row; then no sink gets it."""
        reasons = [sink.rejection(rows) for sink in self.inner_sinks]
        known_reasons = [reason for reason in reasons if reason is not None]
        return F.coalesce(*known_reasons) if known_reasons else None

    @property
    def fills_unavailable(self) -> bool:  # type: ignore[override]
        """Whether all sinks do."""
        return all(sink.fills_unavailable for sink in self.inner_sinks)

    @property
    def reads_changes(self) -> bool:  # type: ignore[override]
        """Whether one of the sinks does."""
        return any(sink.reads_changes for sink in self.inner_sinks)

    @contextmanager
    def accepted(self, frames: Mapping[str, DataFrame], plan: BatchPlan) -> Iterator[AcceptedRows]:
        """Yield the rows that all sinks accept; a row that one of them rejects is in no table."""
        rejections: list[tuple[DataFrame, Column]] = []
        with ExitStack() as stack:
            for sink in self.inner_sinks:
                accepted = stack.enter_context(sink.accepted(frames, plan))
                frames = accepted.frames
                rejections += accepted.rejections
            yield AcceptedRows(frames, rejections)

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of a batch against the tables of all sinks."""
        batch_frames = frames()
        for sink in self.inner_sinks:
            sink.check_schema(lambda: batch_frames)
        return True

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch to all sinks; return the outcome of the target."""
        for sink in self.other_sinks:
            sink.write(frames, batch, rows_out=rows_out)
        return self.target.write(frames, batch, rows_out=rows_out)
