"""The table of a view: how the rows of a batch come into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql import functions as F

from ..columns import quoted, quoted_in, same_key
from ..commit.guarded import NEW, OLD, set_to
from ..commit.options import CommitOptions
from ..commit.table import replacing
from ..joins.table_table import WEIGHT
from ._buckets import BUCKET, RECENT, existing, writer
from ._evaluation import Change
from ._row_log import GONE, require_free_names

_ROW = "__tidegate_row"


@dataclass(frozen=True)
class ViewTable:
    """The Delta table of a view, whose rows differ by their keys."""

    path: str
    keys: Sequence[str]
    buckets: int

    def replace(self, rows: DataFrame, options: CommitOptions) -> None:
        """Write these rows in place of all that are there."""
        require_free_names(rows, self.path)
        placed = rows.select(F.lit(RECENT).alias(BUCKET), *map(quoted, rows.columns))
        existing(placed, self.path, self.buckets)
        self._save(replacing(writer(placed, self.buckets)), options)

    def change(self, change: Change, options: CommitOptions) -> None:
        """Write the rows that come, and take out those that go."""
        require_free_names(change.rows.drop(WEIGHT), self.path)
        rows = self._last_states(change)
        there = rows.drop(GONE)
        state = existing(there, self.path, self.buckets)
        if state is not None and change.leaving:
            self._merge(rows, change, options)
            return
        # Where rows only come they are not there yet; where nothing changes the commit bears the
        # stamp and no rows.
        self._save(writer(there, self.buckets).mode("append"), options)

    def _save(self, writer: DataFrameWriter, options: CommitOptions) -> None:
        options.on(writer).option("delta.enableDeletionVectors", "true").save(self.path)

    def _last_states(self, change: Change) -> DataFrame:
        """Return each row's last state: a row that goes and comes is one that is replaced."""
        columns = [quoted(name) for name in change.rows.columns if name != WEIGHT]
        last = F.max_by(F.struct(*columns), quoted(WEIGHT)).alias(_ROW)
        gone = (F.max(WEIGHT) < 0).alias(GONE)
        found = change.rows.groupBy(*map(quoted, self.keys)).agg(last, gone)
        return found.select(F.lit(RECENT).alias(BUCKET), f"{_ROW}.*", GONE)

    def _merge(self, rows: DataFrame, change: Change, options: CommitOptions) -> None:
        spark = rows.sparkSession
        values = set_to(name for name in rows.columns if name != GONE)
        # A row that goes is in its bucket, or was written by one of the last batches.
        near = quoted_in(OLD, BUCKET).isin([RECENT, *change.leaving])
        gone = quoted_in(NEW, GONE)
        merge = (
            DeltaTable.forPath(spark, self.path)
            .alias(OLD)
            .merge(rows.alias(NEW), near & same_key(self.keys))
            .whenMatchedDelete(gone)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(~gone, values)
        )
        with options.session(spark):
            merge.execute()
