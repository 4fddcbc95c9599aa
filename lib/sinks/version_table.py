"""A table's local copy: the versions of its rows, kept current by its changelog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..durations import microseconds
from ..joins import VALID_FROM, versions
from ..jvm import delta_state
from ._targets import require_target

REWRITE_EVERY = 50
"""Batches between two rewritings of the table, which cost as much as the table is large."""

_NEXT = "__tidegate_next"
_NEWEST = "__tidegate_newest"


@dataclass(frozen=True)
class VersionTable:
    """A Delta table of a changelog's versions, with `valid_from`, and `valid_to` of deletions.

    A version is valid until the next of its key begins; of those that begin at one instant the last
    by `order` counts. Each batch's versions are appended, exactly once.

    Args:
        path: the Delta table.
        on: the columns of the key.
        order: the columns that order changes of a key that were made at the same instant.
        partition: the columns that name the parts of the changelog which get on by themselves, as
            the partitions of a topic do. The changelog has then come as far as the slowest of the
            parts that had a change at all. Without these columns the haste of one part would make
            the changes of the others late. All changes of a key are of one part.
        time: the column that says when a row was changed.
        deleted: a boolean column that is true where a row was deleted, and is not stored; None for
            a changelog without deletions.
        changes: makes the changes of the changelog's rows, with the columns above and those of the
            table; None takes the rows as they are.
        keep: how long a version is kept after it was replaced, measured from where the changelog
            had come to; one batch in fifty leaves older ones out, and makes few files of many. A
            key's last version stays, even if it is a deletion, since a version that comes late must
            not pass for the newest. None keeps all.

    >>> VersionTable("/data/profiles", on="user", order=["offset"], partition=["partition"]).step
    'versions'
    """

    path: str
    _: KW_ONLY
    on: str | Sequence[str]
    order: Sequence[str]
    partition: Sequence[str] = ()
    time: str = "event_time"
    deleted: str | None = None
    changes: Callable[[DataFrame], DataFrame] | None = None
    keep: str | timedelta | None = None
    step: str = "versions"
    layout: Layout = ANY

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)

    @property
    def keys(self) -> list[str]:
        """The columns of the key."""
        return names(self.on, "on")

    def add(self, rows: DataFrame, batch: Batch) -> None:
        """Add the versions that begin with a batch's changes; without a row nothing is written."""
        changes = rows if self.changes is None else self.changes(rows)
        require(changes, [*self.keys, *self.order, *self.partition], "on, order, partition")
        if changes.isEmpty():
            return
        spark = changes.sparkSession
        begun = self._begun(changes)
        last = last_batch(spark, self.path, batch, self.step) or 0
        # Batches without a change write nothing, so that the number itself may be passed over.
        due = batch.number // REWRITE_EVERY > last // REWRITE_EVERY

        def commit(options: CommitOptions) -> None:
            known = table.existing(begun, self.path, self.layout, evolve=False)
            if known is None or not due or self.keep is None:
                table.append(begun, self.path, options, self.layout)
                return
            needed = self._needed(self.read(spark), table.plain(begun), self.keep)
            writer = table.replacing(needed.write.format("delta"))
            options.on(writer).save(self.path)

        commit_once(spark, self.path, batch, self.step, commit, {})

    def _begun(self, changes: DataFrame) -> DataFrame:
        """Return the versions that begin with the changes."""
        if self.deleted is None:
            return versions(changes, time=self.time)
        return versions(changes, time=self.time, deleted=self.deleted).drop(self.deleted)

    def exists(self, spark: SparkSession) -> bool:
        """Return whether a version has ever come."""
        return delta_state(spark, self.path).version >= 0

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all versions."""
        return spark.read.format("delta").load(self.path)

    def newest(self, spark: SparkSession) -> int | None:
        """Return how far the changelog has come, in microseconds since 1970.

        None before the first version.
        """
        if not self.exists(spark):
            return None
        found = self._newest(self.read(spark)).head()
        return None if found is None else found[0]

    def _newest(self, rows: DataFrame) -> DataFrame:
        """Return the newest change of the slowest part; one row."""
        of_a_part = F.max(F.unix_micros(VALID_FROM)).alias(_NEWEST)
        parts = rows.groupBy(*map(quoted, self.partition)).agg(of_a_part)
        return parts.agg(F.min(_NEWEST).alias(_NEWEST))

    def _needed(self, old: DataFrame, new: DataFrame, keep: str | timedelta) -> DataFrame:
        """Leave out the versions that were replaced too long ago.

        How long ago goes by where the changelog had come to without the new versions: so far events
        may still be read.
        """
        key = Window.partitionBy(*map(quoted, self.keys))
        timeline = key.orderBy(VALID_FROM, *map(quoted, self.order))
        replaced_at = F.unix_micros(_NEXT)
        kept = F.lit(microseconds(keep, "keep", least=0))
        return (
            old.unionByName(new)
            .withColumn(_NEXT, F.lead(VALID_FROM).over(timeline))
            .crossJoin(F.broadcast(self._newest(old)))
            .where(quoted(_NEXT).isNull() | (replaced_at > quoted(_NEWEST) - kept))
            .select(*map(quoted, old.columns))
        )
