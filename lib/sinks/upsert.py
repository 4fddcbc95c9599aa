"""Upsert rows into a Delta table by key, or merge partial aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merge_columns, merge_partials, partials
from ..columns import (
    first_reason,
    quote_name,
    quoted_column,
    quoted_column_in,
    require_column_names,
    require_columns,
    require_flag,
    same_key,
)
from ..commit.batch import CommitContext
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..delta.delta_table import SOURCE_ALIAS, TARGET_ALIAS, guarded_assignments, merge_assignments
from ..delta.row_constraints import storage_faults
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..errors import ArgumentError, ColumnError
from ..input_frames import only_frame
from .base import TableSink, require_target

_IS_STORED = "__tidegate_is_stored"
_ROW_HASH = "__tidegate_row_hash"


@dataclass(frozen=True)
class Upsert(TableSink):
    """Upsert each batch's rows by key, exactly once.

    Without `aggs` a row replaces the stored row that has its key; a key may occur once per batch.
    With `aggs`, {column: Aggregate}, rows contain the keys and one partial for each aggregate, and
    the table stores the merged partials of all batches; read results by
    `tidegate.aggregates.finish`. Null is a key like any other value.

    The merge is guarded: if another writer changes an affected row between reading and commit,
    nothing is written. Each batch scans the table for its keys, so partition or cluster it by a
    column that keys of a batch share, such as the day of a window.

    Args:
        path: path of the Delta table.
        keys: the key columns.
        aggs: the aggregates of the partials; None replaces rows.
        layout, output, evolve: as for `Append`.

    Raises:
        ArgumentError, ColumnError: at construction.
        ColumnError: for a batch with duplicate keys.
        TableError: for a table with different columns.
        TableMismatchError, ConflictError: for a batch.

    >>> Upsert("/data/views", keys=["page"]).output
    'upsert'
    """

    plan_name: ClassVar[str] = "upsert"
    path: str
    _: KW_ONLY
    keys: Sequence[str]
    aggs: Mapping[str, Aggregate] | None = None
    layout: TableLayout = ANY_LAYOUT
    output: str = "upsert"
    evolve: bool = False

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)
        require_flag(self.evolve, "evolve")
        if self.aggs is not None:
            _ = partials(self.aggs)
        if isinstance(self.keys, str) or not require_column_names(self.keys, "keys"):
            raise ArgumentError(
                f"invalid keys: {self.keys!r}", "a list of at least one column", 'keys=["page"]'
            )
        overlap = sorted(set(self.keys) & set(self.aggs or ()))
        if overlap:
            raise ColumnError(f"invalid aggs: {', '.join(overlap)}", "columns that are not in keys")

    @property
    def result_keys(self) -> Sequence[str]:
        """The key columns."""
        return self.keys

    @property
    def adds_results(self) -> bool:
        """Whether the rows are partial aggregates."""
        return bool(self.aggs)

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of a batch against the table."""
        rows = self._rows(only_frame(frames()))
        table.require_matching_schema(rows, self.path, self.layout, evolve=self.evolve)
        return True

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the table cannot store a row."""
        return first_reason(storage_faults(rows, self.path, self.layout))

    def _write_rows(self, rows: DataFrame, batch: CommitContext, options: CommitOptions) -> None:
        """Insert rows, and replace stored rows or add to stored partials that have the same key."""
        written = self._rows(rows)
        state = table.require_matching_schema(written, self.path, self.layout, evolve=self.evolve)
        if not self.aggs:
            self._require_unique_keys(written)
        if state is None:
            first = merge_partials(written, self.keys, self.aggs) if self.aggs else written
            table.append(first, self.path, options, self.layout)
            return
        source, inserted = written, merge_assignments(written.columns)
        updated = inserted
        if self.aggs:
            source = self._merged_partials(written, self.aggs)
            # The assignment of one aggregate carries the guard of the row.
            guard = next(iter(self.aggs))
            data_type = written.schema[guard].dataType
            row_hash = quoted_column_in(SOURCE_ALIAS, _ROW_HASH)
            unchanged = _row_hash(TARGET_ALIAS, self.aggs).eqNullSafe(row_hash)
            is_new = ~quoted_column_in(SOURCE_ALIAS, _IS_STORED)
            updated = guarded_assignments(written.columns, guard, unchanged, data_type)
            inserted = guarded_assignments(written.columns, guard, is_new, data_type)
        spark = rows.sparkSession
        merge = table.start_merge(spark, self.path, source, same_key(self.keys))
        if self.evolve:
            merge = merge.withSchemaEvolution()
        key_names = set(map(quote_name, self.keys))
        changed = {name: value for name, value in updated.items() if name not in key_names}
        if changed:
            merge = merge.whenMatchedUpdate(set=changed)
        options.merge(spark, self.path, merge.whenNotMatchedInsert(values=inserted))

    def _rows(self, frame: DataFrame) -> DataFrame:
        written = [*self.keys, *(self.aggs or ())]
        require_columns(frame, written, "keys and aggs")
        rows = table.without_column_metadata(frame)
        return rows.select(*map(quoted_column, written)) if self.aggs else rows

    def _merged_partials(self, rows: DataFrame, aggs: Mapping[str, Aggregate]) -> DataFrame:
        """Return the merged partials of each key of the batch.

        Further columns: whether the table contains the key, and a hash of its stored partials.
        """
        target = DeltaTable.forPath(rows.sparkSession, self.path).toDF().alias(TARGET_ALIAS)
        touched = target.join(rows.alias(SOURCE_ALIAS), same_key(self.keys), "left_semi")
        old = touched.select(
            *map(quoted_column, rows.columns),
            F.lit(True).alias(_IS_STORED),
            _row_hash(TARGET_ALIAS, aggs).alias(_ROW_HASH),
        )
        new = rows.withColumns({_IS_STORED: F.lit(False), _ROW_HASH: F.lit(None).cast("bigint")})
        old_and_new = old.unionByName(new)
        merged = [merge.alias(name) for name, merge in merge_columns(rows, aggs).items()]
        flags = [F.max(name).alias(name) for name in (_IS_STORED, _ROW_HASH)]
        return old_and_new.groupBy(*map(quoted_column, self.keys)).agg(*merged, *flags)

    def _require_unique_keys(self, rows: DataFrame) -> None:
        duplicate = (
            rows.groupBy(*map(quoted_column, self.keys)).count().where(F.col("count") > 1).head()
        )
        if duplicate is not None:
            key = {name: duplicate[index] for index, name in enumerate(self.keys)}
            raise ColumnError(
                f"duplicate key in a batch: {duplicate[-1]} rows have the key {key}; nothing was "
                f"written to {self.path}",
                "one row per key",
                "aggregate or deduplicate in the transform, or merge partials with aggs=...",
            )


def _row_hash(alias: str, aggs: Mapping[str, Aggregate]) -> Column:
    """Return a hash of the partials of a row, to detect changes by another writer."""
    return F.xxhash64(*[quoted_column_in(alias, name) for name in aggs])
