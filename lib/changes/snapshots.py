"""A snapshot of a table, and then its log: the seam between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..errors import ArgumentError
from .between import changes_between, whole_numbers
from .change import SNAPSHOT, key_names


def snapshot_of(
    rows: DataFrame,
    *,
    key: str | Sequence[str],
    position: Sequence[int],
    at: datetime,
    of: str = "snapshot",
) -> DataFrame:
    """Return the rows of a snapshot as changes, with op = snapshot.

    `newest`, `versions`, `Current` and `History` take them as they take the snapshot rows of
    Debezium (its `op` "r"). What the log says beyond the snapshot's position comes after them.

    Args:
        rows: a batch, such as a Delta or Parquet table.
        key: the columns by which rows are told apart.
        position: where the log stood when the snapshot was taken, as the log's changes have their
            `position`: `[lsn]` of PostgreSQL, `[file, pos, row]` of MySQL. For changes that are
            ordered by the topic's offsets, and whose snapshot has one for each partition, `[-1]`.
        at: when the snapshot was taken, with its zone: the `event_time` of its rows.
        of: what `place.topic` says.

    Raises:
        As `changes_between`.

    >>> rows = spark.sql("SELECT 1 AS id, 'a' AS name")
    >>> at = datetime.fromisoformat("2026-01-02T00:00:00Z")
    >>> snapshot_of(rows, key="id", position=[77], at=at).select("op", "after.name").collect()
    [Row(op='snapshot', name='a')]
    """
    found = changes_between(rows.limit(0), rows, key=key, position=position, at=at, of=of)
    return found.withColumn("op", F.lit(SNAPSHOT))


def after_snapshot(
    changes: DataFrame,
    *,
    position: Sequence[int] | None = None,
    offsets: Mapping[str, Mapping[int, int]] | None = None,
) -> DataFrame:
    """Return the changes that a snapshot does not have yet: the log from the snapshot on.

    An older change of a key that the snapshot has would do no harm: `Current` knows that its row is
    newer. But a row that was deleted before the snapshot was taken is not in it, and an older
    change would bring the row back. So a log that begins before its snapshot is cut here, as the
    transform of a job: `Stateless(partial(after_snapshot, position=[77]))`.

    Args:
        changes: a batch or a stream of changes.
        position: the snapshot's. Changes at it or before it are left out. A tombstone without a
            position stays: `Current` applies it to what its key has then.
        offsets: instead, by topic and partition, the first offset that the snapshot does not have:
            of several topics, or of snapshots taken at different places. A topic or a partition
            that is not named is read whole. `KafkaSource(start=offsets)` does the same where a
            reading begins there.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.
    """
    key_names(changes)
    if (position is None) == (offsets is None):
        raise ArgumentError("there are position and offsets, or neither.", "one of the two.")
    if position is not None:
        snapshot = F.array(*map(F.lit, whole_numbers(position, "position")))
        older = F.col("position") <= snapshot.cast("array<bigint>")
        return changes.where(~F.coalesce(older, F.lit(False)))
    older = F.lit(False)
    for topic, partitions in (offsets or {}).items():
        for partition, first in partitions.items():
            there = (F.col("place.topic") == topic) & (F.col("place.partition") == partition)
            older = older | (there & (F.col("place.offset") < first))
    return changes.where(~older)
