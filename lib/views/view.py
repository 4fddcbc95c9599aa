"""A materialized view: the join of two changing tables, maintained incrementally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import partial, reduce
from itertools import dropwhile
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from ..columns import (
    first_reason,
    null_faults,
    quoted_column,
    quoted_column_in,
    require_choice,
    require_column_names,
    require_instance,
    require_integer,
    same_key,
)
from ..commit.batch import BatchPlan, CommitContext
from ..commit.delta_commit import commit_once, last_batch
from ..commit.protocol import Outcome
from ..delta.commit_options import CommitOptions
from ..delta.delta_table import SOURCE_ALIAS, TARGET_ALIAS, merge_assignments, with_full_overwrite
from ..errors import ArgumentError, TableMismatchError
from ..input_frames import require_frame
from ..joins.incremental_join import WEIGHT, IncrementalJoinType, table_table
from ..jvm import delta_state
from ..sinks import Sink
from ..sinks.base import AcceptedRows
from ._incremental import Change, Evaluation, KeyLookup, Relation, TableCache
from .bucketing import (
    BUCKET,
    RECENT,
    bucket,
    bucket_writer,
    compact_table,
    read_buckets,
    require_bucketed_schema,
)
from .keyed_table import DELETED, KeyedTable, require_free_names

_ROW = "__tidegate_row"
_TABLE = "__tidegate_table"
SMALL_BYTES = 16 * 2**20
"""Up to this total size, recomputing views is faster.

Measured by benchmarks/cases/table_table.py: incremental maintenance costs 2.5 s of small queries,
in which 2 million rows can be joined and written.
"""
ESTIMATED_ROW_BYTES = 50
"""Estimated size of a row, since counting rows costs a query per table."""
REWRITE_COST_RATIO = 10
"""Cost of a changed row, relative to a row that is read and rewritten."""


@dataclass(frozen=True)
class View(Sink, Relation):
    """Maintain the join of two changing tables in a Delta table (materialized view).

    After each batch the view equals the join of both tables after the batch, by the rules of
    `tidegate.joins.incremental_join`. Columns: those of `on`, of the left, of the right, and
    `_bucket`, the partition column; it is -1 for rows of recent batches, which are in no bucket
    yet. Rows are inserted, replaced and deleted in place, or the view is recomputed if that costs
    less.

    Several tables are written, each with its own stamp; a view before its source tables. The
    changes of a view are computed from source tables before the batch, so a batch that runs again
    after a failure between two tables has the same result. Readers may see a view one batch ahead
    of its source tables. Tables at different batches, for example after restoring a backup, are
    refused before anything is written.

    Cost: a batch reads the buckets of its keys and the rows of recent batches, and appends one or
    two files to each table. Deletion vectors mark deleted rows, so nothing is copied. With many
    more buckets than changes the cost is proportional to the changes; with fewer, a batch reads
    everything. About 10,000 rows per bucket suit most tables. Both sides have the same number of
    buckets, which cannot change.

    If view and tables have up to 16 MB in total, or a batch changes a tenth of their rows, the view
    is recomputed, which takes little more than half the time. A view with a change data feed
    (`delta.enableChangeDataFeed`) is never recomputed. Rows of tables of up to 16 MB remain cached
    in the executors until another writer commits. If an executor is lost, the batch is computed
    again.

    State: the tables. Compaction merges files of recent batches, and moves recent rows into buckets
    if there are at least 50,000 of them and a quarter of those in buckets. VACUUM deletes old
    files. Readers need deletion vectors (Delta reader version 3).

    Args:
        path: path of the Delta table.
        left, right: a `KeyedTable` or another View.
        on: the join columns.
        how: "inner", "left" or "full".
        lookup_by: the columns by which `read_view` looks rows up, `on` by default; for a view that
            is joined into another view, the join columns of that view. Rows with a null cannot be
            found.
        output: name of the commits in the application id.
        buckets: number of buckets; a lookup reads one of them and the recent rows.
        compact_every: number of batches between compactions of all tables; None for none.

    Raises:
        ArgumentError: at construction; for a batch without the inputs of the tables.
        ColumnError, ColumnTypeError: if changes lack columns.
        TableError: if columns or the number of buckets differ from the table's.
        TableMismatchError, ConflictError: if tables belong to another query or have other writers.

    >>> def table(name: str, key: list[str]) -> KeyedTable:
    ...     columns = {"key": key, "lookup_by": "author", "order_by": "version"}
    ...     return KeyedTable(f"/data/{name}", output=name, input=name, **columns)
    >>> posts, follows = table("posts", ["post"]), table("follows", ["follower", "author"])
    >>> View("/data/timelines", left=posts, right=follows, on="author", lookup_by="follower").keys
    ['author', 'post', 'follower']
    """

    plan_name: ClassVar[str] = "view"
    compacts_itself: ClassVar[bool] = True

    path: str
    _: KW_ONLY
    left: KeyedTable | View
    right: KeyedTable | View
    on: str | Sequence[str]
    how: IncrementalJoinType = "inner"
    lookup_by: str | Sequence[str] = ()
    output: str = "view"
    buckets: int = 64
    compact_every: int | None = 20
    _cache: TableCache = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_choice(self.how, "how", IncrementalJoinType)
        on = require_column_names(self.on, "on")
        if not on:
            raise ArgumentError("invalid on: no columns", "one or more columns", 'on="user"')
        for name, side in (("left", self.left), ("right", self.right)):
            require_instance(side, name, KeyedTable | View, f"{name}=KeyedTable(...)")
        if self.compact_every is not None:
            require_integer(self.compact_every, "compact_every", 1, 1_000_000, "compact_every=20")
        _require_joinable_sides(self.path, self.left, self.right, on)
        if self.how == "full":
            _require_full_join_key(self.left, self.right, on)
        _require_distinct_tables(self.tables())

    @property
    def keys(self) -> list[str]:
        """The key columns of the view."""
        on = require_column_names(self.on, "on")
        return list(dict.fromkeys([*on, *self.left.keys, *self.right.keys]))

    @property
    def lookup_columns(self) -> list[str]:
        """The columns by which rows are looked up."""
        return require_column_names(self.lookup_by or self.on, "lookup_by")

    def tables(self) -> list[tuple[str, str]]:
        """Return the table of the view and its source tables."""
        return [(each.path, each.output) for each in self.source_tables()]

    def source_tables(self) -> list[KeyedTable | View]:
        """Return the view and its sources in the order of writing."""
        return [self, *self.left.source_tables(), *self.right.source_tables()]

    def accepted(
        self, frames: Mapping[str, DataFrame], plan: BatchPlan
    ) -> AbstractContextManager[AcceptedRows]:
        """Return the rows, and the changes with a null in the key, which `write` omits."""
        return nullcontext(AcceptedRows(frames, self._changes_without_key(frames)))

    def _changes_without_key(
        self, frames: Mapping[str, DataFrame]
    ) -> Sequence[tuple[DataFrame, Column]]:
        """Return the changes of each table that has such changes, with their reasons."""
        tables = [each for each in self.source_tables() if isinstance(each, KeyedTable)]
        rejections: list[tuple[DataFrame, Column]] = []
        for table in tables:
            changes = table.changes_in(require_frame(frames, table.input, "input"))
            reason = first_reason(null_faults(changes, table.keys, "key column"))
            if reason is not None:
                rejections.append((changes, reason))
        if not rejections:
            return []
        # One Spark job for all tables.
        found = reduce(
            DataFrame.union,
            [
                changes.where(reason.isNotNull()).select(F.lit(number).alias(_TABLE))
                for number, (changes, reason) in enumerate(rejections)
            ],
        )
        return [rejections[row[_TABLE]] for row in found.distinct().collect()]

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch to the view and its source tables, except to those that contain it."""
        if not frames:
            raise ArgumentError("invalid frames: {}", "the rows of the job's inputs by name")
        spark = next(iter(frames.values())).sparkSession
        _require_same_batches(spark, self.source_tables(), batch)
        outcomes: dict[str, Outcome] = {}
        with Evaluation(spark, frames, batch.plan.number, self._cache) as evaluation:
            evaluation.recompute_all = is_recompute_cheaper(evaluation, self.source_tables())
            for each in self.source_tables():
                write = partial(each.write_changes, evaluation)
                outcomes[each.path] = commit_once(spark, each.path, batch, each.output, write, {})
            written = [path for path, outcome in outcomes.items() if outcome == "written"]
            evaluation.cache_for_next_batch(written, SMALL_BYTES)
        if self.compact_every and (batch.plan.number + 1) % self.compact_every == 0:
            self.compact(spark)
        return outcomes[self.path]

    def compute_changes(self, evaluation: Evaluation) -> DataFrame:
        """Return removed and added rows of the view by weight."""
        return evaluation.cached_frame(self, "change", lambda: self._join_changes(evaluation))

    def read_matching(self, spark: SparkSession, lookup: KeyLookup) -> DataFrame:
        """Return the stored rows that a lookup finds."""
        rows = read_buckets(spark, self.path, lookup.buckets)
        return lookup.matching_rows(rows, self.lookup_columns).drop(BUCKET)

    def rows_after(self, evaluation: Evaluation) -> DataFrame:
        """Return all rows after the batch."""
        left = self.left.rows_after(evaluation)
        right = self.right.rows_after(evaluation)
        return table_table(left, right, on=self.on, how=self.how).drop(WEIGHT)

    def write_changes(self, evaluation: Evaluation, options: CommitOptions) -> None:
        """Write the changed rows, or overwrite the view."""
        if not evaluation.recompute_all:
            self._apply_change(evaluation.change_in(self), options)
            return
        rows = self.rows_after(evaluation)
        require_free_names(rows, self.path)
        bucketed_rows = rows.select(F.lit(RECENT).alias(BUCKET), *map(quoted_column, rows.columns))
        require_bucketed_schema(bucketed_rows, self.path, self.buckets)
        self._save(with_full_overwrite(bucket_writer(bucketed_rows, self.buckets)), options)

    def _apply_change(self, change: Change, options: CommitOptions) -> None:
        require_free_names(change.rows.drop(WEIGHT), self.path)
        # A row that is removed and added is replaced.
        columns = [quoted_column(name) for name in change.rows.columns if name != WEIGHT]
        latest = F.max_by(F.struct(*columns), quoted_column(WEIGHT)).alias(_ROW)
        is_deleted = (F.max(WEIGHT) < 0).alias(DELETED)
        latest_rows = change.rows.groupBy(*map(quoted_column, self.keys)).agg(latest, is_deleted)
        rows = latest_rows.select(F.lit(RECENT).alias(BUCKET), f"{_ROW}.*", DELETED)
        new_rows = rows.drop(DELETED)
        state = require_bucketed_schema(new_rows, self.path, self.buckets)
        if state is not None and change.leaving_buckets:
            self._merge(rows, change.leaving_buckets, options)
            return
        # Without removed rows all rows are new; an empty commit still carries the stamp.
        self._save(bucket_writer(new_rows, self.buckets).mode("append"), options)

    def _save(self, writer: DataFrameWriter, options: CommitOptions) -> None:
        options.apply_to(writer).option("delta.enableDeletionVectors", "true").save(self.path)

    def _merge(self, rows: DataFrame, buckets: Sequence[int], options: CommitOptions) -> None:
        spark = rows.sparkSession
        values = merge_assignments(name for name in rows.columns if name != DELETED)
        # A removed row is in its bucket or among the recent rows.
        in_buckets = quoted_column_in(TARGET_ALIAS, BUCKET).isin([RECENT, *buckets])
        is_deleted = quoted_column_in(SOURCE_ALIAS, DELETED)
        merge = (
            DeltaTable.forPath(spark, self.path)
            .alias(TARGET_ALIAS)
            .merge(rows.alias(SOURCE_ALIAS), in_buckets & same_key(self.keys))
            .whenMatchedDelete(is_deleted)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(~is_deleted, values)
        )
        with options.apply_to_session(spark):
            merge.execute()

    def compact(self, spark: SparkSession) -> None:
        """Compact the view and its source tables."""
        lookup_columns = [quoted_column(name) for name in self.lookup_columns]
        key = [quoted_column(name) for name in self.keys]
        row_bucket = bucket(lookup_columns, key, self.buckets)
        compact_table(
            spark,
            self.path,
            self.buckets,
            merge_recent=lambda rows: rows,
            rebucket=lambda rows: rows.withColumn(BUCKET, row_bucket),
        )
        self.left.compact(spark)
        self.right.compact(spark)

    def _join_changes(self, evaluation: Evaluation) -> DataFrame:
        left_lookup = evaluation.change_in(self.left).match_lookup
        right_lookup = evaluation.change_in(self.right).match_lookup
        # Changes of one side are joined with matching rows of the other. Whether a row is unmatched
        # depends on all rows of its key on the other side.
        lookup_for_left = left_lookup | right_lookup if self.how == "full" else right_lookup
        lookup_for_right = left_lookup if self.how == "inner" else left_lookup | right_lookup
        return table_table(
            evaluation.operand(self.left, lookup_for_left),
            evaluation.operand(self.right, lookup_for_right),
            on=self.on,
            how=self.how,
        )


def is_recompute_cheaper(evaluation: Evaluation, relations: Sequence[KeyedTable | View]) -> bool:
    """Return whether to recompute the views from all rows of their tables.

    Never if a view has a change data feed, which would contain every row as removed and added.
    """
    states = {each.path: evaluation.state(each) for each in relations}
    existing = {path: state for path, state in states.items() if state.version >= 0}
    tables = [each for each in relations if isinstance(each, KeyedTable)]
    views = existing.keys() - {table.path for table in tables}
    if any(existing[path].has_change_feed() for path in views):
        return False
    sizes = {path: state.size_in_bytes() for path, state in existing.items()}
    if sum(sizes.values()) <= SMALL_BYTES:
        return True
    changes = sum(evaluation.input(name).count() for name in {table.input for table in tables})
    table_bytes = sum(sizes.get(table.path, 0) for table in tables)
    return table_bytes <= changes * REWRITE_COST_RATIO * ESTIMATED_ROW_BYTES


def _require_joinable_sides(path: str, left: Relation, right: Relation, on: Sequence[str]) -> None:
    for side in (left, right):
        if side.lookup_columns != list(on):
            raise ArgumentError(
                f"invalid lookup_by of {side.path}: {side.lookup_columns}",
                f"the columns that {path} joins on: {on}",
                f"lookup_by={on}",
            )
    if left.buckets != right.buckets:
        raise ArgumentError(
            f"invalid buckets: {left.buckets} of {left.path} and {right.buckets} of {right.path}",
            "the same number on both sides",
            f"buckets={left.buckets}",
        )


def _require_full_join_key(left: Relation, right: Relation, on: Sequence[str]) -> None:
    """Refuse a full join in which two unmatched rows could have the same key."""
    if all(set(side.keys) < set(on) for side in (left, right)):
        raise ArgumentError(
            f"invalid on: {on} for a full join of sides with the keys {left.keys} and {right.keys}",
            "the exact key of a side, or columns that do not include all of a key",
        )


def _require_distinct_tables(tables: Sequence[tuple[str, str]]) -> None:
    paths = {path for path, _ in tables}
    outputs = {step for _, step in tables}
    if len(paths) < len(tables) or len(outputs) < len(tables):
        expected = "a different path and output for each table"
        raise ArgumentError(f"invalid tables: {tables}", expected)


def _require_same_batches(
    spark: SparkSession, relations: Sequence[KeyedTable | View], batch: CommitContext
) -> None:
    """Refuse tables that do not contain the same batches.

    After a failure, some tables, the last in the order of writing, may lack this batch.
    """
    last_batches = []
    for each in relations:
        exists = delta_state(spark, each.path).version >= 0
        last_batches.append((exists, last_batch(spark, each.path, batch, each.output)))

    def is_committed(table: tuple[bool, int | None]) -> bool:
        return table[1] is not None and table[1] >= batch.plan.number

    uncommitted = list(dropwhile(is_committed, last_batches))
    # A table without a batch of this query belongs to another query, which numbers batches itself.
    if len(set(uncommitted)) > 1 or (True, None) in uncommitted:
        description = ", ".join(
            f"{each.path} {f'is at batch {number}' if exists else 'does not exist'}"
            for each, (exists, number) in zip(relations, last_batches, strict=True)
        )
        raise TableMismatchError(
            "the tables of the view are at different batches; nothing was written.",
            f"{description}.",
            "restore them together, or start with a new checkpoint and new tables.",
        )
