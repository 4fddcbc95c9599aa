"""What a batch has read of a topic before a stream goes on, which reads some of it again."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import quoted
from ..offsets import Offsets, at_place

AGAIN = "__tidegate_again"
_LATE = "__tidegate_late"
FILTERED = "__tidegate_filtered"
"""The mark of good rows that a condition leaves out."""


@dataclass(frozen=True)
class Before:
    """The offsets that were read before, and what becomes of rows beyond them.

    end: the offsets up to which was read, exclusive; of a partition that is not named, nothing was.
    late: which rows beyond them are left out, as their results are out; None leaves none out.
    """

    end: Offsets
    late: Column | None = None

    def marks(self, topic: Column, partition: Column, offset: Column) -> dict[str, Column]:
        """Return the columns by which the counts and `in_time` know a row, by their names."""
        late = F.lit(False) if self.late is None else F.coalesce(self.late, F.lit(False))
        return {AGAIN: self._again(topic, partition, offset), _LATE: late}

    @property
    def in_time(self) -> Column:
        """Which rows a stream takes: those that are read again, and those that are not late."""
        return quoted(AGAIN) | ~quoted(_LATE)

    def _again(self, topic: Column, partition: Column, offset: Column) -> Column:
        return offset < F.coalesce(at_place(self.end, topic, partition), F.lit(0))
