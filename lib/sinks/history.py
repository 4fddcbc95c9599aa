"""The history of a changing table: each version of a row with the time for which it was valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..changes import revised, versions
from ..changes.change import TRUNCATE, key_names
from ..columns import escaped, quoted_in, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.guarded import NEW, OLD, guarded, set_to
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..frames import sole
from ._targets import require_target
from .append import counts

_STATE = ("valid_to", "op", "position")
"""What tells whether a stored version is still the one that was read."""


@dataclass(frozen=True)
class History:
    """Keep every version of every row of a changing table, exactly once for each batch.

    The batch holds changes, as `debezium` and `maxwell` make them. Each version has the time of its
    validity by the rules of `tidegate.changes.versions`: valid_from inclusive, valid_to exclusive
    and null for "still", by the source's time. A late change is put where it belongs, and its
    neighbours' validity ends and begins there. A batch reads the versions of its keys, and writes
    only those that differ, so that what is sent again rewrites no file. A batch with a truncate
    reads all keys that lived then or later.

    Columns: those of the changing table, `valid_from`, `valid_to`, `is_current`, `op`, `position`.
    Ends of keys stay as rows with valid_to = valid_from, for the changes that come late; `rows`
    returns the table without them.

    The merge is guarded: where another writer changes a version between its reading and the commit,
    nothing is written. Each batch scans the table for its keys: partition or cluster it by what
    keys have in common.

    Raises:
        ColumnError, ColumnTypeError (rows that are no changes), TableError (other columns),
            ReplayMismatchError, ConflictError: for a batch.

    >>> History("/data/customer_history").step
    'history'
    """

    path: str
    _: KW_ONLY
    layout: Layout = ANY
    step: str = "history"

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Take up the changes, or skip them when the table already has this batch."""
        changes = table.plain(sole(frames))
        keys = key_names(changes)

        def commit(options: CommitOptions) -> None:
            first = versions(changes)
            if table.existing(first, self.path, self.layout, evolve=False) is None:
                table.append(first, self.path, options, self.layout)
            else:
                self._merge(changes, keys, first.columns, options)

        spark = changes.sparkSession
        return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the versions alone, without the ends of keys."""
        stored = spark.read.format("delta").load(self.path)
        return stored.where(F.col("valid_to").isNull() | (F.col("valid_from") < F.col("valid_to")))

    def _merge(
        self,
        changes: DataFrame,
        keys: Sequence[str],
        columns: Sequence[str],
        options: CommitOptions,
    ) -> None:
        spark = changes.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        truncated = changes.where(F.col("op") == F.lit(TRUNCATE)).head() is not None
        rows = revised(target.toDF(), changes, truncated=truncated)

        # The version that the table had when it was read, null for a new one.
        was = quoted_in(NEW, "was")
        stored = F.struct(*[quoted_in(OLD, name).alias(name) for name in _STATE])
        unchanged = stored.eqNullSafe(F.struct(*[was.getField(name) for name in _STATE]))
        valid_to = quoted_in(NEW, "valid_to")
        updated = set_to(columns)
        updated[escaped("valid_to")] = guarded(valid_to, unchanged, "timestamp")
        inserted = set_to(columns)
        inserted[escaped("valid_to")] = guarded(valid_to, was.isNull(), "timestamp")

        same_start = quoted_in(OLD, "valid_from") == quoted_in(NEW, "valid_from")
        goes = quoted_in(NEW, "op").isNull()
        merge = (
            target.alias(OLD)
            .merge(rows.alias(NEW), same_key(keys) & same_start)
            .whenMatchedDelete(condition=goes & unchanged)
            .whenMatchedUpdate(set=updated)
            .whenNotMatchedInsert(values=inserted)
        )
        options.merge(spark, self.path, merge)
