"""Rows made of a batch and of one version of a table, which they tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import require_free
from ..commit.batch import Batch
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ConfigError
from ..jvm import delta_state
from .sink import ROWS, Sink, sole


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A sink for rows that are made of a batch's rows and of a Delta table as it is when the batch is written.

    `rows` is called with the batch and the table, a join as a rule. Each batch reads the newest
    version that the table
    has then, and no other: its number is in the column `version` of the batch's rows. A batch that
    runs again after a crash is skipped where it was written, or reads the version of that moment:
    as all its rows are one commit of one table, it never mixes two. Later changes of the table do
    not re-issue rows.

    State: none. The table is read anew for each batch, by whatever `rows` does with it.

    Raises ArgumentError, at construction, for a sink of several tables; ConfigError where there is
    no such Delta table; ColumnError where `version` is taken; and what `rows` and the sink raise.

    >>> from tidegate.sinks import Append
    >>> sink = Snapshot(table="/data/pages", rows=lambda clicks, pages: clicks.join(pages, "page"),
    ...                 sink=Append(path="/data/clicks"))
    >>> sink.path, sink.version
    ('/data/clicks', 'table_version')
    """

    table: str
    rows: Callable[[DataFrame, DataFrame], DataFrame]
    sink: Sink
    version: str = "table_version"

    def __post_init__(self) -> None:
        if len(self.tables()) != 1:
            raise ArgumentError(
                f"the sink writes {len(self.tables())} tables, and a crash between them could "
                "mix two versions.",
                "a sink of one table.",
                "make the others from this one by a job of their own.",
            )

    @property
    def path(self) -> str:
        """The Delta table's path."""
        return self.sink.path

    @property
    def step(self) -> str:
        """The step's name in the application id."""
        return self.sink.step

    def tables(self) -> list[tuple[str, str]]:
        """List the sink's table."""
        return self.sink.tables()

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Make the rows with the table's newest version and write them; their number is not known
        beforehand."""
        frame = sole(frames)
        newest = delta_state(frame.sparkSession, self.table).version
        if newest < 0:
            raise ConfigError(
                f"{self.table} is no Delta table.",
                "a Delta table that is there before the job starts.",
            )
        table = (
            frame.sparkSession.read.format("delta").option("versionAsOf", newest).load(self.table)
        )
        made = self.rows(frame, table)
        require_free(made.columns, [self.version], "version")
        told = made.withColumn(self.version, F.lit(newest).cast("bigint"))
        return self.sink.write({ROWS: told}, batch)
