"""Append to a Delta table, each batch exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..frames import sole
from ._targets import require_target


@dataclass(frozen=True)
class Append:
    """Append each batch's rows to a Delta table: the sink for rows that never change.

    Rows of closed windows are such rows. The first batch makes the table, with its columns and
    `layout`. Afterwards a column that is missing, new or of another type is refused before
    anything is written; `evolve` lets new columns in. An empty batch commits too, without files, so
    that the table's log has every batch number. `step` tells a job's writes apart: each needs its
    own.

    Costs beside a bare append: see `commit_once`.

    Raises:
        ColumnError, TableError (other columns), ReplayMismatchError, ConflictError: for a batch.

    >>> from tidegate.sinks import Layout
    >>> Append("/data/page_views", layout=Layout(partition_by=["day"])).step
    'append'
    """

    path: str
    _: KW_ONLY
    layout: Layout = ANY
    step: str = "append"
    evolve: bool = False
    reads_once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table."""
        return [(self.path, self.step)]

    def require_fits(self, frames: Mapping[str, DataFrame]) -> None:
        """Refuse rows of other columns than the table has, by their types alone."""
        table.existing(sole(frames), self.path, self.layout, evolve=self.evolve)

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Append the rows, or skip them when the table already has this batch."""
        frame = sole(frames)

        def commit(options: CommitOptions) -> None:
            self.require_fits(frames)
            table.append(frame, self.path, options, self.layout, evolve=self.evolve)

        spark = frame.sparkSession
        return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))


def counts(rows_out: int | None) -> Mapping[str, int]:
    """Return the stamp's count of written rows, where it is known."""
    return {} if rows_out is None else {"out": rows_out}
