"""A changelog applied to a table: each key's newest row, in the order of the log, however batches
cut it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from operator import and_

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted
from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ColumnTypeError
from .append import counts
from .sink import sole
from .upsert import quoted_in

_FLOOR, _OLD, _NEW = "__tidegate_floor", "old", "new"


@dataclass(frozen=True)
class Current:
    """Keep the rows of a changing table as they are now, exactly once for each batch of changes.

    `newest` is `tidegate.changes.newest`, which reduces a batch to one row a key. A row replaces
    the table's when its position is the same or higher, so that neither the cut of batches nor what
    is sent again changes the result; an older one does nothing. Two changes of a key in one batch
    are one, the newest.

    Columns: those of the changing table, `changed_at` (the source's time of the row's last change),
    `deleted`, `position`. A deleted key stays as a row marked `deleted`, without values, so that an
    older change which comes again does not bring it back; a truncate stays as a row whose key is
    null. `rows` gives the table without them. They are kept for ever; `DELETE FROM t WHERE deleted
    AND id IS NOT NULL AND changed_at < ...` is safe up to the time before which nothing is sent
    again.

    Each batch scans the table for its keys: partition or cluster it by what keys have in common. A
    truncate rewrites it. Nobody else may write rows to it.

    Raises ConfigError (columns), ColumnTypeError, ReplayMismatchError, ConflictError.

    >>> from tidegate.changes import newest
    >>> Current(path="/data/customers", newest=newest).step
    'current'
    """

    path: str
    _: KW_ONLY
    newest: Callable[[DataFrame], DataFrame]
    partition_by: Sequence[str] = ()
    step: str = "current"

    def tables(self) -> list[tuple[str, str]]:
        """List the one table."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Apply the changes, or skip them when the table already has this batch."""
        frame = sole(frames)
        keys = key_names(frame)

        def write(options: CommitOptions) -> None:
            rows = table.plain(self.newest(frame)).persist()
            try:
                state = table.existing(
                    rows.drop("tombstone"), self.path, self.partition_by, evolve=False
                )
                if state is None:
                    whole = rows.where(F.col("position").isNotNull()).drop("tombstone")
                    table.append(whole, self.path, self.partition_by, options)
                else:
                    self._merge(rows, keys, options)
            finally:
                rows.unpersist()

        return commit_once(frame.sparkSession, self.path, batch, self.step, write, counts(rows_out))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows that there are now, with the changing table's columns alone."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(~F.col("deleted")).drop("changed_at", "deleted", "position")

    def _merge(self, rows: DataFrame, keys: list[str], options: CommitOptions) -> None:
        spark = rows.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        floor = target.toDF().where(_keyless(keys)).agg(F.max("position").alias(_FLOOR))
        source = rows.crossJoin(F.broadcast(floor))
        values = {name: quoted_in(_NEW, name) for name in rows.columns if name != "tombstone"}
        position, stone = quoted_in(_NEW, "position"), quoted_in(_NEW, "tombstone")
        unknown = F.coalesce(position >= quoted_in(_NEW, _FLOOR), position.isNotNull())
        merge = (
            target.alias(_OLD)
            .merge(source.alias(_NEW), same_key(keys))
            .whenMatchedUpdate(condition=position >= quoted_in(_OLD, "position"), set=dict(values))
            .whenMatchedUpdate(
                condition=stone.isNotNull() & ~quoted_in(_OLD, "deleted"),
                set=self._ended(rows, keys, stone),
            )
            .whenNotMatchedInsert(condition=unknown, values=dict(values))
        )
        cut = rows.where(_keyless(keys)).select("position", "changed_at").head()
        if cut is not None:
            lower = quoted_in(_OLD, "position") < _numbers(cut)
            changed = self._ended(rows, keys, F.lit(cut["changed_at"])) | {
                "position": _numbers(cut)
            }
            merge = merge.whenNotMatchedBySourceUpdate(condition=lower, set=changed)
        with options.session(spark):
            merge.execute()

    def _ended(self, rows: DataFrame, keys: list[str], at: Column) -> dict[str, str | Column]:
        """Return what is set where a key ends: no values, and when that was."""
        kept = {*keys, "position", "deleted", "changed_at", "tombstone"}
        values = {
            name: F.lit(None).cast(rows.schema[name].dataType)
            for name in rows.columns
            if name not in kept
        }
        return {**values, "deleted": F.lit(True), "changed_at": at}


def key_names(changes: DataFrame) -> list[str]:
    """Return the names of the key's columns, from the changes' own struct of them."""
    found = changes.schema["key"].dataType if "key" in changes.columns else None
    if not isinstance(found, StructType):
        raise ColumnTypeError(
            f"the columns are {', '.join(changes.columns)}.",
            "changes, with a struct `key`.",
            "debezium(...) as format",
        )
    return list(found.names)


def same_key(keys: Sequence[str]) -> Column:
    """Return whether the rows `old` and `new` are of one key; null is the key of a truncate."""
    return reduce(and_, [quoted_in(_OLD, name).eqNullSafe(quoted_in(_NEW, name)) for name in keys])


def _keyless(keys: Sequence[str]) -> Column:
    return reduce(and_, [quoted(name).isNull() for name in keys])


def _numbers(cut: Row) -> Column:
    return F.array(*[F.lit(number).cast("bigint") for number in cut["position"]])
