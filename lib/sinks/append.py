"""Append rows to a Delta table, each batch exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame

from ..columns import first_reason, require_flag
from ..commit.batch import CommitContext
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..delta.row_constraints import storage_faults
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..input_frames import only_frame
from .base import TableSink, require_target


@dataclass(frozen=True)
class Append(TableSink):
    """Append each batch's rows to a Delta table: the sink for rows that never change.

    Results of closed windows are such rows. The first batch creates the table with its columns and
    `layout`. Later batches must have the same columns and types; `evolve` allows new columns. An
    empty batch commits without files, so that the table's log contains every batch number.

    Args:
        path: path of the Delta table.
        layout: partitioning, clustering and properties of the table.
        output: name of the commits in the application id; unique within a job.
        evolve: whether batches may add columns.

    Raises:
        ColumnError, TableError: for a batch, if columns, types or the layout differ.
        TableMismatchError, ConflictError: for a batch, as `commit_once`.

    >>> from tidegate.sinks import TableLayout
    >>> Append("/data/page_views", layout=TableLayout(partition_by=["day"])).output
    'append'
    """

    plan_name: ClassVar[str] = "append"
    reads_once = True
    result_keys = ()

    path: str
    _: KW_ONLY
    layout: TableLayout = ANY_LAYOUT
    output: str = "append"
    evolve: bool = False

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout)
        require_flag(self.evolve, "evolve")

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of a batch against the table."""
        rows = only_frame(frames())
        table.require_matching_schema(rows, self.path, self.layout, evolve=self.evolve)
        return True

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the table cannot store a row."""
        return first_reason(storage_faults(rows, self.path, self.layout))

    def _write_rows(self, rows: DataFrame, batch: CommitContext, options: CommitOptions) -> None:
        table.require_matching_schema(rows, self.path, self.layout, evolve=self.evolve)
        table.append(rows, self.path, options, self.layout, evolve=self.evolve)
