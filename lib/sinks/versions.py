"""A table's local copy: the versions of its rows, kept current by its changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import microseconds, names, quoted, require
from ..jvm import delta_state
from . import table
from .batch import Batch
from .commit import CommitOptions, commit_once, last_batch

FROM, TO = "valid_from", "valid_to"
_NEXT = "__tidegate_next"
REWRITE_EVERY = 50
"""Batches between two rewritings of the table, which cost as much as the table is large."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """A Delta table of versions: rows with `valid_from`, and `valid_to` where a version is a deletion.

    A version is valid until the next of its key begins; of those that begin at one instant the last by `order` counts.
    Each batch's versions are appended, exactly once. With `keep`, versions that were replaced so long before the newest
    one are left out, and the table's many files become one, whenever it is rewritten: by one batch in fifty. A key's
    last version stays, were it a deletion, since a version that comes late must not pass for the newest.
    """

    path: str
    on: str | Sequence[str]
    order: Sequence[str]
    keep: str | timedelta | None = None
    step: str = "versions"

    def add(self, rows: DataFrame, batch: Batch) -> None:
        """Add a batch's versions; without a row nothing is written."""
        spark = rows.sparkSession
        require(rows, [*names(self.on, "on"), *self.order, FROM, TO], "on, order and versions")
        if rows.isEmpty():
            return
        last = last_batch(spark, self.path, batch, self.step) or 0
        rewritten = self.keep is not None and batch.number // REWRITE_EVERY > last // REWRITE_EVERY

        def write(options: CommitOptions) -> None:
            known = table.existing(rows, self.path, (), evolve=False)
            if known is None or not rewritten:
                table.append(rows, self.path, (), options)
            else:
                whole = self._needed(self.read(spark).unionByName(table.plain(rows)))
                options.on(whole.write.format("delta").mode("overwrite")).save(self.path)

        commit_once(spark, self.path, batch, self.step, write, {})

    def exists(self, spark: SparkSession) -> bool:
        """Whether a version has ever come."""
        return delta_state(spark, self.path).version >= 0

    def read(self, spark: SparkSession) -> DataFrame:
        """Give all versions."""
        return spark.read.format("delta").load(self.path)

    def newest(self, spark: SparkSession) -> int | None:
        """Give the newest `valid_from` in microseconds since 1970; None without a version."""
        if not self.exists(spark):
            return None
        row = self.read(spark).agg(F.max(F.unix_micros(FROM))).head()
        return None if row is None else row[0]

    def _needed(self, rows: DataFrame) -> DataFrame:
        """Leave out the versions that were replaced long before the newest one began."""
        place = Window.partitionBy(*map(quoted, names(self.on, "on"))).orderBy(FROM, *map(quoted, self.order))
        limit = rows.agg(F.max(F.unix_micros(FROM)).alias("newest"))
        return (
            rows.withColumn(_NEXT, F.lead(FROM).over(place))
            .crossJoin(F.broadcast(limit))
            .where(quoted(_NEXT).isNull() | (F.unix_micros(_NEXT) > F.col("newest") - self._kept()))
            .select(*map(quoted, rows.columns))
        )

    def _kept(self) -> Column:
        return F.lit(microseconds(self.keep or "0 seconds", "keep", least=0))
