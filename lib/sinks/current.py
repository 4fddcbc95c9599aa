"""A changelog applied to a table: the newest row of each key, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import reduce
from operator import and_, or_

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..changes import newest
from ..changes.change import key_names
from ..columns import escaped, quoted, quoted_in, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.guarded import NEW, OLD, set_to
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..durations import microseconds
from ..frames import sole
from ._targets import require_target
from .append import counts

FORGET_EVERY = 50
"""Batches between two that delete old rows of deleted keys, and scan the table for them."""

_TOMBSTONE = "tombstone"
_TRUNCATED = "__tidegate_truncated"


@dataclass(frozen=True)
class Current:
    """Keep the rows of a changing table as they are now, exactly once for each batch of changes.

    The batch holds changes, as `debezium` and `maxwell` make them; `tidegate.changes.newest`
    reduces them to one row a key. A row replaces the table's row of its key when its position is
    the same or higher; an older row changes nothing. So neither the cut of batches nor what is sent
    again changes the result.

    Columns: those of the changing table, `changed_at` (the source's time of the row's last change),
    `deleted`, `position`. A deleted key stays as a row marked `deleted`, without values, so that an
    older change which comes again does not bring the key back; a truncate stays as a row whose key
    is null. `rows` returns the table without these rows. So the table is the log compacted: with
    `delta.enableChangeDataFeed`, `TableChanges` reads it as a changelog again.

    keep_deleted: how long the row of a deleted key is kept, measured from the newest change of a
        batch; one batch in fifty deletes older ones. It must be longer than anything that is sent
        again may be old: an older change of a key that is forgotten brings the key back. None keeps
        all.

    Each batch scans the table for its keys: partition or cluster it by what keys have in common. A
    truncate rewrites it. Nobody else may write rows to it.

    Raises:
        ColumnError, ColumnTypeError (rows that are no changes), TableError (other columns),
            ReplayMismatchError, ConflictError: for a batch.

    >>> Current("/data/customers").step
    'current'
    """

    path: str
    _: KW_ONLY
    layout: Layout = ANY
    step: str = "current"
    keep_deleted: str | timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_deleted is not None:
            microseconds(self.keep_deleted, "keep_deleted")
        require_target(self.path, self.step, self.layout, self)

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Apply the changes, or skip them when the table already has this batch."""
        changes = sole(frames)
        keys = key_names(changes)

        def commit(options: CommitOptions) -> None:
            rows = table.plain(newest(changes)).persist()
            try:
                self._apply(rows, keys, options, batch.number)
            finally:
                rows.unpersist()

        spark = changes.sparkSession
        return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows that there are now, with the changing table's columns alone."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(~F.col("deleted")).drop("changed_at", "deleted", "position")

    def _apply(
        self, rows: DataFrame, keys: Sequence[str], options: CommitOptions, number: int
    ) -> None:
        stored = rows.drop(_TOMBSTONE)
        if table.existing(stored, self.path, self.layout, evolve=False) is not None:
            self._merge(rows, keys, options, forget=number % FORGET_EVERY == FORGET_EVERY - 1)
            return
        # A key without a position has tombstones only: there is no row that they could end.
        placed = stored.where(F.col("position").isNotNull())
        table.append(placed, self.path, options, self.layout)

    def _merge(
        self, rows: DataFrame, keys: Sequence[str], options: CommitOptions, *, forget: bool
    ) -> None:
        spark = rows.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        source = _beside_truncate(rows, target.toDF(), keys)
        values = set_to(name for name in rows.columns if name != _TOMBSTONE)
        position = quoted_in(NEW, "position")
        newer = position >= quoted_in(OLD, "position")
        tombstone = quoted_in(NEW, _TOMBSTONE)
        buried = tombstone.isNotNull() & ~quoted_in(OLD, "deleted")
        # A key that the table does not know stays away if the table was truncated after its change.
        unknown = F.coalesce(position >= quoted_in(NEW, _TRUNCATED), position.isNotNull())
        merge = (
            target.alias(OLD)
            .merge(source.alias(NEW), same_key(keys))
            .whenMatchedUpdate(condition=newer, set=values)
            .whenMatchedUpdate(condition=buried, set=_ended(rows, keys, tombstone))
            .whenNotMatchedInsert(condition=unknown, values=values)
        )
        if forget and self.keep_deleted is not None:
            merge = _forgotten(merge, rows, keys, self.keep_deleted)
        with options.session(spark):
            _emptied(merge, rows, keys).execute()


def _beside_truncate(rows: DataFrame, stored: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows, each with the position of the table's last truncate, or null."""
    truncates = stored.where(_keyless(keys))
    truncated = truncates.agg(F.max("position").alias(_TRUNCATED))
    return rows.crossJoin(F.broadcast(truncated))


def _forgotten(
    merge: DeltaMergeBuilder, rows: DataFrame, keys: Sequence[str], keep: str | timedelta
) -> DeltaMergeBuilder:
    """Return the merge that also deletes the rows of keys that were deleted long ago."""
    newest_change = rows.agg(F.unix_micros(F.max("changed_at")).alias("at")).head()
    if newest_change is None or newest_change["at"] is None:
        return merge
    limit = F.timestamp_micros(F.lit(newest_change["at"] - microseconds(keep, "keep_deleted")))
    is_key = reduce(or_, [quoted_in(OLD, name).isNotNull() for name in keys])
    old = quoted_in(OLD, "deleted") & is_key & (quoted_in(OLD, "changed_at") < limit)
    return merge.whenNotMatchedBySourceDelete(old)


def _emptied(merge: DeltaMergeBuilder, rows: DataFrame, keys: Sequence[str]) -> DeltaMergeBuilder:
    """Return the merge that also ends the keys which a truncate among the rows has ended."""
    truncate = rows.where(_keyless(keys)).select("position", "changed_at").head()
    if truncate is None:
        return merge
    position = F.array(*[F.lit(number).cast("bigint") for number in truncate["position"]])
    ended = _ended(rows, keys, F.lit(truncate["changed_at"]))
    return merge.whenNotMatchedBySourceUpdate(
        condition=quoted_in(OLD, "position") < position, set={**ended, "position": position}
    )


def _ended(rows: DataFrame, keys: Sequence[str], at: Column) -> dict[str, str | Column]:
    """Return what is set where a key ends: no values, and when that was."""
    kept = {*keys, "position", "deleted", "changed_at", _TOMBSTONE}
    nulls = {
        escaped(field.name): F.lit(None).cast(field.dataType)
        for field in rows.schema
        if field.name not in kept
    }
    return {**nulls, "deleted": F.lit(True), "changed_at": at}


def _keyless(keys: Sequence[str]) -> Column:
    """Return whether a row is that of a truncate."""
    return reduce(and_, [quoted(name).isNull() for name in keys])
