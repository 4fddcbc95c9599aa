"""Join each batch with one version of a Delta table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import require_function, require_instance, require_no_name_clash
from ..commit.batch import CommitContext
from ..commit.protocol import Outcome
from ..delta.catalog import resolve_table_path
from ..delta.delta_table import read_table_version
from ..errors import ArgumentError, TableError
from ..input_frames import ROWS, only_frame
from ..joins import LookupJoin
from ..jvm import delta_state
from .base import Sink, WrappingSink, require_sink


@dataclass(frozen=True, kw_only=True)
class SnapshotJoin(WrappingSink):
    """Join each batch with the current version of a Delta table, and write the result.

    Each batch reads one version of the table, the newest at the time of writing, and adds its
    number as column `version_column`. A batch that runs again after a failure is skipped if it was
    committed; otherwise it reads the version of that time. One batch never mixes versions. Later
    changes of the table do not update rows that were written before.

    State: none. `join` reads the table for each batch. With a `LookupJoin` the job streams its
    rows; with any other function it caches them, since the function may compute them repeatedly.

    Args:
        sink: writes the joined rows, to one table.
        table: path of the Delta table, or its catalog name, such as `shop.pages`.
        join: function of the batch and the table that returns the joined rows.
        version_column: name of the column with the table's version.

    Raises:
        ArgumentError: at construction, if the sink has several tables.
        TableError: for a batch, if the Delta table does not exist.
        ColumnError: for a batch, if the rows already have a column `version_column`.
        TidegateError: as `join` and the sink raise.

    >>> from tidegate.joins import LookupJoin
    >>> from tidegate.sinks import Append
    >>> clicks = Append("/data/clicks")
    >>> sink = SnapshotJoin(table="/data/pages", join=LookupJoin("page"), sink=clicks)
    >>> sink.path, sink.version_column
    ('/data/clicks', 'table_version')
    """

    plan_name: ClassVar[str] = "snapshot_join"
    sink: Sink
    table: str
    join: Callable[[DataFrame, DataFrame], DataFrame]
    version_column: str = "table_version"

    def __post_init__(self) -> None:
        require_sink(self.sink)
        require_instance(self.table, "table", str, 'table="/data/pages"')
        require_function(self.join, "join", 'join=LookupJoin("page")')
        tables = self.tables()
        if len(tables) != 1:
            raise ArgumentError(
                f"invalid sink: {type(self.sink).__name__} with {len(tables)} tables",
                "a sink with one table; a failure between two commits could mix versions",
                "a separate job for each further table, that reads this one",
            )

    @property
    def reads_once(self) -> bool:
        """Whether `join` is a LookupJoin; any other function may compute the rows repeatedly."""
        return isinstance(self.join, LookupJoin) and self.sink.reads_once

    @property
    def supports_backfill(self) -> bool:
        """Whether `join` is a LookupJoin, which joins row by row."""
        return isinstance(self.join, LookupJoin)

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the inner sink cannot store a row, by the columns that the row has.

        A batch with a row that the columns of the table make impossible to store fails.
        """
        return self.sink.rejection(rows)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Join the batch with the newest version of the table and write the rows."""
        frame = only_frame(frames)
        spark = frame.sparkSession
        path = resolve_table_path(spark, self.table)
        latest_version = delta_state(spark, path).version
        if latest_version < 0:
            raise TableError(
                f"invalid table: {self.table!r} is not a Delta table",
                "a Delta table that exists before the job starts",
            )
        table = read_table_version(spark, path, latest_version)
        joined = self.join(frame, table)
        require_no_name_clash(joined.columns, [self.version_column], "version")
        version = F.lit(latest_version).cast("bigint")
        versioned = joined.withColumn(self.version_column, version)
        reason = self.sink.rejection(versioned)
        if reason is not None:
            failure = F.raise_error(reason).cast("bigint")
            checked_version = F.when(reason.isNull(), version).otherwise(failure)
            versioned = joined.withColumn(self.version_column, checked_version)
        return self.sink.write({ROWS: versioned}, batch)
