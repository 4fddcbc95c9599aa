"""The table of the events that wait for a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..jvm import delta_state

WAITING = "waiting"
"""The table's step in the application id."""
_BATCH = "__tidegate_batch"
"""The batch that an event came with, by which the waiting events are stored."""
_PARTED = Layout(partition_by=[_BATCH])
_UNMATCHED = -1
"""In place of that batch for events that were due and met no version: every batch tries them
anew."""


@dataclass(frozen=True)
class WaitingEvents:
    """Events that wait at `path`, stored by the batch that they came with.

    A batch reads and rewrites the files of those batches alone of which events are due.
    """

    path: str

    def arrived(self, events: DataFrame, batch: Batch) -> DataFrame:
        """Return the events of a batch as they would be stored."""
        return events.withColumn(_BATCH, F.lit(batch.number))

    def held(self, arrived: DataFrame) -> DataFrame:
        """Return the events that wait; none where there is no table yet."""
        spark = arrived.sparkSession
        if delta_state(spark, self.path).version < 0:
            return arrived.where(F.lit(False))
        return spark.read.format("delta").load(self.path)

    def opened(self, held: DataFrame, due: Column) -> list[int]:
        """List the batches of which waiting events are due."""
        return sorted(row[0] for row in held.where(due).select(_BATCH).distinct().collect())

    def of(self, held: DataFrame, opened: Sequence[int]) -> DataFrame:
        """Return the events that wait since these batches."""
        return held.where(quoted(_BATCH).isin(list(opened)))

    def unmatched(self, events: DataFrame) -> DataFrame:
        """Return events that were due and met no version, as they are stored."""
        return events.withColumn(_BATCH, F.lit(_UNMATCHED))

    def plain(self, events: DataFrame) -> DataFrame:
        """Return events as they came in."""
        return events.drop(_BATCH)

    def store(self, later: DataFrame, batch: Batch, opened: Sequence[int]) -> None:
        """Store events, exactly once, in place of all that waited since the batches in `opened`."""
        if not opened and later.isEmpty():
            return

        def commit(options: CommitOptions) -> None:
            table.existing(later, self.path, _PARTED, evolve=False)
            if not opened:
                table.append(later, self.path, options, _PARTED)
                return
            replaced = ", ".join(map(str, sorted({*opened, batch.number, _UNMATCHED})))
            writer = options.on(table.replacing(table.plain(later).write.format("delta")))
            writer.option("replaceWhere", f"{_BATCH} IN ({replaced})").save(self.path)

        commit_once(later.sparkSession, self.path, batch, WAITING, commit, {})
