"""The offsets that a backfill has read; the stream reads some of them again."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import quoted_column
from ..offsets import Offsets, partition_value
from .event_time_column import BACKFILLED, REREAD


@dataclass(frozen=True)
class ProcessedOffsets:
    """The offsets that a backfill has read, and the later rows that the stream drops.

    end: the offsets at which the backfill ends, exclusive; 0 for a partition that is not named.
    is_late: whether the stream drops a later row, because the backfill has written its results;
        None drops none.

    >>> ProcessedOffsets({"clicks": {0: 1_000}}).end
    {'clicks': {0: 1000}}
    """

    end: Offsets
    is_late: Column | None = None

    def flag_columns(self, topic: Column, partition: Column, offset: Column) -> dict[str, Column]:
        """Return the flags REREAD and BACKFILLED of a row at this position, by name."""
        end_offset = F.coalesce(partition_value(self.end, topic, partition), F.lit(0))
        is_late = F.lit(False) if self.is_late is None else F.coalesce(self.is_late, F.lit(False))
        return {REREAD: offset < end_offset, BACKFILLED: is_late}

    @property
    def is_emitted(self) -> Column:
        """Whether the stream emits a flagged row: it is read again, or it is not late."""
        return quoted_column(REREAD) | ~quoted_column(BACKFILLED)
