"""Rows made of a batch and of one version of a table, whose number they bear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import require_free
from ..commit.batch import Batch
from ..commit.named import path_of
from ..commit.outcome import Outcome
from ..commit.table import at_version
from ..errors import ArgumentError, TableError
from ..frames import ROWS, sole
from ..joins import Lookup
from ..jvm import delta_state
from ._wrapping import Wrapping
from .sink import reads_once


@dataclass(frozen=True, kw_only=True)
class Snapshot(Wrapping):
    """Write rows that are made of a batch's rows and of a Delta table, as it is at that moment.

    `join` is called with the batch and the table, which is given by its path, or by its name in a
    catalog, as `shop.pages`. Each batch reads the newest version that the
    table has when the batch is written, and no other: its number is in the column `version` of the
    batch's rows. A batch that runs again after a crash is skipped where it was written, or else
    reads the version of that moment: all its rows are one commit of one table, so that it never
    mixes two. Later changes of the table do not re-issue rows.

    State: none. The table is read anew for each batch, by whatever `join` does with it. With a
    `Lookup` a job writes its rows as they are read; for another function they are kept in memory,
    since it may read them more than once.

    Raises:
        ArgumentError: at construction, for a sink of several tables.
        TableError: for a batch, where there is no such Delta table.
        ColumnError: for a batch, where the name in `version` is taken.
        And what `join` and the sink raise.

    >>> from tidegate.joins import Lookup
    >>> from tidegate.sinks import Append
    >>> sink = Snapshot(table="/data/pages", join=Lookup("page"), sink=Append("/data/clicks"))
    >>> sink.path, sink.version
    ('/data/clicks', 'table_version')
    """

    table: str
    join: Callable[[DataFrame, DataFrame], DataFrame]
    version: str = "table_version"

    def __post_init__(self) -> None:
        tables = self.tables()
        if len(tables) != 1:
            raise ArgumentError(
                f"the sink writes {len(tables)} tables, and a crash between them could mix two "
                "versions.",
                "a sink of one table.",
                "make the others from this one by a job of their own.",
            )

    @property
    def reads_once(self) -> bool:
        """Whether the rows are read once: what a function does with them is not known."""
        return isinstance(self.join, Lookup) and reads_once(self.sink)

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Join the batch with the table's newest version and write the rows.

        Their number is not known beforehand.
        """
        frame = sole(frames)
        spark = frame.sparkSession
        path = path_of(spark, self.table)
        newest = delta_state(spark, path).version
        if newest < 0:
            raise TableError(
                f"{self.table} is no Delta table.",
                "a Delta table that is there before the job starts.",
            )
        table = at_version(spark, path, newest)
        joined = self.join(frame, table)
        require_free(joined.columns, [self.version], "version")
        told = joined.withColumn(self.version, F.lit(newest).cast("bigint"))
        return self.sink.write({ROWS: told}, batch)
