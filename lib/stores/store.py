"""The interface of external stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

POSITION = "tidegate_position"
DELETED = "tidegate_deleted"
"""Additional columns of a store: the position of a row, and whether the row is deleted."""


@dataclass(frozen=True, kw_only=True)
class BatchInfo:
    """The identity of a batch that is applied to a store.

    sender: job, query and output, as in the application id of commits.
    number: number of the batch.
    offsets_hash: hash of the planned offsets.
    previous_number: number of the sender's previous batch, or None.

    >>> BatchInfo(sender="job/q/mirror", number=7, offsets_hash="5d41", previous_number=6).number
    7
    """

    sender: str
    number: int
    offsets_hash: str
    previous_number: int | None


class Store(ABC):
    """A table, index or similar of an external store, with one row per key."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the table for messages, without secrets."""

    def rejection(self, rows: DataFrame, values: Mapping[str, Column]) -> Column | None:
        """Return why the store cannot represent a row, as text that is null for all other rows.

        values: the stored columns by name, as expressions over the rows.

        None, the default, if it can represent every row of this schema.
        """
        return None

    @abstractmethod
    def apply(self, rows: DataFrame, keys: Sequence[str], batch: BatchInfo) -> None:
        """Apply the rows of a batch and record the batch, in one transaction.

        rows: one row per key; columns are the keys, the values, POSITION and DELETED. POSITION
            increases with each change of a key. If DELETED is true, values are null.

        Does nothing if the store has recorded the batch. A row overwrites the stored row of its key
        unless the stored position is higher. Positions of deleted keys are stored as tombstones.

        Raises:
            StoreError: if the store is unavailable or rejects the rows.
            TableError: if the table has different columns.
            TableMismatchError: if the last recorded batch is before the previous batch or after
                this one, is another batch with this number, or belongs to another sender.
        """
