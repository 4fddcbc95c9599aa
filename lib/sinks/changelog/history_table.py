"""Keep the history of a changing table: row versions with their validity (SCD type 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...changelogs import history_rows, history_updates
from ...changelogs.change_schema import TRUNCATE, current_row, has_unavailable, key_names
from ...changelogs.history_rows import incomplete_versions
from ...columns import first_reason, quoted_column_in, same_key
from ...commit.batch import BatchPlan, CommitContext
from ...delta import delta_table as table
from ...delta.commit_options import CommitOptions
from ...delta.delta_table import SOURCE_ALIAS, TARGET_ALIAS, guarded_assignments
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...input_frames import only_frame
from ..base import AcceptedRows, TableSink, require_target
from .change_faults import change_faults, split_incomplete

_STATE_COLUMNS = ("valid_to", "op", "position")
"""Columns by which the merge detects that another writer changed a version."""


@dataclass(frozen=True)
class HistoryTable(TableSink):
    """Maintain all versions of the rows of a changing table (SCD type 2), exactly once.

    A batch contains changes, as `debezium_format` and `maxwell_format` return them. Each version
    has its validity by the rules of `tidegate.changelogs.history_rows`: valid_from inclusive,
    valid_to exclusive and null for the current version, in source time. A late change is inserted
    at its time and shortens the validity of its neighbours. A batch reads the versions of its keys
    and writes only those that differ, so repeated changes rewrite no file. A batch with a truncate
    reads all keys that were valid then or later.

    A value that was not sent with a change (`unavailable`) is that of the version before it in the
    log. A job writes a change without such a version to its dead letters.

    Columns: those of the source table, `valid_from`, `valid_to`, `is_current`, `op`, `position`.
    Deletions remain as rows with valid_to = valid_from, which late changes need; `rows` returns the
    table without them.

    The merge is guarded and scans the table for its keys, as that of `Upsert`.

    Args:
        path: path of the Delta table.
        layout, output: as for `Append`.

    Raises:
        TidegateError: as `CurrentTable`.

    >>> HistoryTable("/data/customer_history").output
    'history'
    """

    plan_name: ClassVar[str] = "history_table"
    path: str
    _: KW_ONLY
    layout: TableLayout = ANY_LAYOUT
    output: str = "history"
    fills_unavailable: ClassVar[bool] = True
    reads_changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of the versions against the table."""
        changes = only_frame(frames())
        versions = changes.select(
            *current_row(changes),
            *[F.col("event_time").alias(name) for name in ("valid_from", "valid_to")],
            F.lit(True).alias("is_current"),
            *("op", "position"),
        )
        table.require_matching_schema(versions, self.path, self.layout, evolve=False)
        return True

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the table cannot store the row of a change."""
        return first_reason(change_faults(rows, self.path, self.layout))

    def accepted(
        self, frames: Mapping[str, DataFrame], plan: BatchPlan
    ) -> AbstractContextManager[AcceptedRows]:
        """Return the changes without those that lack a value which no version before them has."""
        return split_incomplete(frames, self.path, incomplete_versions)

    def _write_rows(self, rows: DataFrame, batch: CommitContext, options: CommitOptions) -> None:
        spark = rows.sparkSession
        changes = table.without_column_metadata(rows)
        versions = history_rows(changes)
        if table.require_matching_schema(versions, self.path, self.layout, evolve=False) is None:
            table.append(versions, self.path, options, self.layout)
            return
        stored_versions = DeltaTable.forPath(spark, self.path).toDF()
        has_truncate = F.max(F.col("op") == F.lit(TRUNCATE))
        truncated, has_gaps = changes.agg(has_truncate, F.max(has_unavailable())).collect()[0]
        updates = history_updates(
            stored_versions, changes, has_truncate=bool(truncated), has_gaps=bool(has_gaps)
        )

        # The stored version as it was read; null for a new one.
        was = quoted_column_in(SOURCE_ALIAS, "was")
        state = [quoted_column_in(TARGET_ALIAS, name).alias(name) for name in _STATE_COLUMNS]
        unchanged = F.struct(*state).eqNullSafe(
            F.struct(*[was.getField(name) for name in _STATE_COLUMNS])
        )
        updated = guarded_assignments(versions.columns, "valid_to", unchanged, "timestamp")
        inserted = guarded_assignments(versions.columns, "valid_to", was.isNull(), "timestamp")

        start = quoted_column_in(SOURCE_ALIAS, "valid_from")
        same_start = quoted_column_in(TARGET_ALIAS, "valid_from") == start
        same_version = same_key(key_names(changes)) & same_start
        is_removed = quoted_column_in(SOURCE_ALIAS, "op").isNull()
        merge = (
            table.start_merge(spark, self.path, updates, same_version)
            .whenMatchedDelete(condition=is_removed & unchanged)
            .whenMatchedUpdate(set=updated)
            .whenNotMatchedInsert(values=inserted)
        )
        options.merge(spark, self.path, merge)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the versions without deletions."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(F.col("valid_to").isNull() | (F.col("valid_from") < F.col("valid_to")))
