"""A table's history: each version of a row with the time for which it was valid, late changes put
in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CHANGED, CommitOptions
from ..commit.outcome import Outcome
from .append import counts
from .current import key_names, same_key
from .sink import sole
from .upsert import quoted_in


class Revised(Protocol):
    """What a table of versions must change to take up changes: `tidegate.changes.revised`."""

    def __call__(self, table: DataFrame, changes: DataFrame, *, truncated: bool) -> DataFrame:
        """The rows that differ, with `was`, the row that the table has; one that has to go has a
        null `op`."""


@dataclass(frozen=True)
class History:
    """Keep every version of every row of a changing table, with the time of its validity, exactly once for each batch.

    `versions` and `revised` are those of `tidegate.changes`, where the rules stand: valid_from
    inclusive, valid_to exclusive and null for "still", by the source's time; a late change is put
    where it belongs, and its neighbours' validity is closed up. Of a batch's keys the versions are
    read, and those alone are written that differ, so that what is sent again rewrites no file. A
    batch with a truncate reads all keys that lived then or later.

    Columns: those of the changing table, `valid_from`, `valid_to`, `is_current`, `op`, `position`.
    Ends of keys stay as rows with valid_to = valid_from, for the changes that come late; `rows`
    gives the table without them.

    The merge is guarded: should another writer change a version between its reading and the commit,
    nothing is written. Each batch scans the table for its keys: partition or cluster it by what
    keys have in common.

    Raises ConfigError (columns), ColumnTypeError, ReplayMismatchError, ConflictError.

    >>> from tidegate.changes import revised, versions
    >>> History(path="/data/customer_history", versions=versions, revised=revised).step
    'history'
    """

    path: str
    _: KW_ONLY
    versions: Callable[[DataFrame], DataFrame]
    revised: Revised
    partition_by: Sequence[str] = ()
    step: str = "history"

    def tables(self) -> list[tuple[str, str]]:
        """List the one table."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Take up the changes, or skip them when the table already has this batch."""
        frame = sole(frames)
        keys, changes = key_names(frame), table.plain(frame)

        def write(options: CommitOptions) -> None:
            first = self.versions(changes)
            if table.existing(first, self.path, self.partition_by, evolve=False) is None:
                table.append(first, self.path, self.partition_by, options)
            else:
                self._merge(changes, keys, first.columns, options)

        return commit_once(frame.sparkSession, self.path, batch, self.step, write, counts(rows_out))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the versions alone, without the ends of keys."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(F.col("valid_to").isNull() | (F.col("valid_from") < F.col("valid_to")))

    def _merge(
        self, changes: DataFrame, keys: list[str], columns: list[str], options: CommitOptions
    ) -> None:
        spark = changes.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        truncated = changes.where(F.col("op") == F.lit("truncate")).head() is not None
        rows = self.revised(target.toDF(), changes, truncated=truncated)
        was, valid_to = quoted_in("new", "was"), quoted_in("new", "valid_to")
        # What was read must still be what is replaced. It stands in a value, as Delta works out the
        # clauses' conditions for rows that they do not concern as well.
        unchanged = _state("old").eqNullSafe(F.struct(*[was.getField(name) for name in _STATE]))
        refuse = F.raise_error(F.lit(CHANGED)).cast("timestamp")
        values: dict[str, str | Column] = {name: quoted_in("new", name) for name in columns}
        updated = {**values, "valid_to": F.when(unchanged, valid_to).otherwise(refuse)}
        inserted = {**values, "valid_to": F.when(was.isNull(), valid_to).otherwise(refuse)}
        goes = quoted_in("new", "op").isNull()
        merge = (
            target.alias("old")
            .merge(
                rows.alias("new"),
                same_key(keys) & (quoted_in("old", "valid_from") == quoted_in("new", "valid_from")),
            )
            .whenMatchedDelete(condition=goes & unchanged)
            .whenMatchedUpdate(set=updated)
            .whenNotMatchedInsert(values=inserted)
        )
        options.merge(spark, self.path, merge)


_STATE = ("valid_to", "op", "position")


def _state(alias: str) -> Column:
    return F.struct(*[quoted_in(alias, name).alias(name) for name in _STATE])
