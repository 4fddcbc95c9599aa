"""A table's local copy: the versions of its rows, kept current by its changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import microseconds, names, quoted, require
from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..jvm import delta_state

FROM, TO = "valid_from", "valid_to"
_NEXT, _NEWEST = "__tidegate_next", "__tidegate_newest"
REWRITE_EVERY = 50
"""Batches between two rewritings of the table, which cost as much as the table is large."""


@dataclass(frozen=True)
class VersionTable:
    """A Delta table of versions: rows with `valid_from`, and `valid_to` where a version is a deletion.

    A version is valid until the next of its key begins; of those that begin at one instant the last
    by `order` counts. `partition` names the columns by which parts of the changelog get on by
    themselves, as the partitions of a topic do: it has come as far as the slowest of those that had
    a change at all. Without them one part's haste would make the others' changes late. All versions
    of a key are of one part.

    Each batch's versions are appended, exactly once. With `keep`, versions that were replaced so
    long before what the changelog had come to are left out, and many files become few, by one batch
    in fifty. A key's last version stays, were it a deletion, since a version that comes late must
    not pass for the newest."""

    path: str
    _: KW_ONLY
    on: str | Sequence[str]
    order: Sequence[str]
    partition: Sequence[str] = ()
    keep: str | timedelta | None = None
    step: str = "versions"

    def add(self, rows: DataFrame, batch: Batch) -> None:
        """Add a batch's versions; without a row nothing is written."""
        spark = rows.sparkSession
        require(
            rows,
            [*names(self.on, "on"), *self.order, *self.partition, FROM, TO],
            "on, order, partition, versions",
        )
        if rows.isEmpty():
            return
        last = last_batch(spark, self.path, batch, self.step) or 0
        rewritten = self.keep is not None and batch.number // REWRITE_EVERY > last // REWRITE_EVERY

        def write(options: CommitOptions) -> None:
            known = table.existing(rows, self.path, (), evolve=False)
            if known is None or not rewritten:
                table.append(rows, self.path, (), options)
            else:
                whole = self._needed(self.read(spark), table.plain(rows))
                options.on(whole.write.format("delta").mode("overwrite")).save(self.path)

        commit_once(spark, self.path, batch, self.step, write, {})

    def exists(self, spark: SparkSession) -> bool:
        """Whether a version has ever come."""
        return delta_state(spark, self.path).version >= 0

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all versions."""
        return spark.read.format("delta").load(self.path)

    def newest(self, spark: SparkSession) -> int | None:
        """Return how far the changelog has come, in microseconds since 1970; None without a
        version."""
        found = self._newest(self.read(spark)).head() if self.exists(spark) else None
        return None if found is None else found[0]

    def _newest(self, rows: DataFrame) -> DataFrame:
        parts = rows.groupBy(*map(quoted, self.partition)).agg(
            F.max(F.unix_micros(FROM)).alias(_NEWEST)
        )
        return parts.agg(F.min(_NEWEST).alias(_NEWEST))

    def _needed(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """Leave out the versions that were replaced long before what the changelog had come to
        without the new ones."""
        place = Window.partitionBy(*map(quoted, names(self.on, "on"))).orderBy(
            FROM, *map(quoted, self.order)
        )
        kept = F.lit(microseconds(self.keep or "0 seconds", "keep", least=0))
        return (
            old.unionByName(new)
            .withColumn(_NEXT, F.lead(FROM).over(place))
            .crossJoin(F.broadcast(self._newest(old)))
            .where(quoted(_NEXT).isNull() | (F.unix_micros(_NEXT) > quoted(_NEWEST) - kept))
            .select(*map(quoted, old.columns))
        )
