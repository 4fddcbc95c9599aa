"""What a store is that a job keeps in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

POSITION = "tidegate_position"
DELETED = "tidegate_deleted"
"""The columns that a store has besides those of the rows: where a row stands, and if it is gone."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Which batch is to be applied.

    sender: the job, its query and the step, as in the commits of tables.
    batch: the batch's number. offsets: the hash of what it was planned to read.
    before: the number of the sender's last batch, as a table of what was applied has it; None for
        the first.
    """

    sender: str
    batch: int
    offsets: str
    before: int | None


class Store(Protocol):
    """A table, an index or the like of a store outside, with one row a key."""

    @property
    def name(self) -> str:
        """What errors call it, without any secret."""

    def apply(self, rows: DataFrame, keys: Sequence[str], told: Applied) -> None:
        """Apply the rows of a batch, and note the batch, in one transaction.

        rows: one row a key, whose columns are the keys, the values, POSITION (numbers that grow
            from change to change of a key) and DELETED, where which is true the values are null.

        Does nothing where the store has noted the batch. A row replaces the store's row of its key
        unless that one's position is higher, also if it is gone: of a key that is deleted, the
        position stays.

        Raises:
            StoreError: for a store that cannot be reached, or does not take the rows.
            TableError: for a table with other columns.
            ReplayMismatchError: where the last batch that the store has noted is neither `before`
                nor this one, or another sender's.
        """
