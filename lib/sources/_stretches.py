"""From where on a topic's partitions have rows of a kind, by one bitmap for many partitions.

An aggregate for each partition would cost every row as much as there are partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..offsets import Offsets, offset_of

_BITS = 32_768
"""Those of a bitmap of Spark's."""
PARTITIONS = 32
"""Partitions that share a bitmap."""
STRETCHES = _BITS // PARTITIONS
"""Stretches of each partition's offsets, a bit each."""


@dataclass(frozen=True)
class Stretches:
    """Offsets of up to PARTITIONS partitions of a topic, cut into stretches.

    A stretch is 2 ** `shift` offsets and begins at a multiple of that; it is so long that no range
    touches more than STRETCHES of them. A stretch's bit is its number modulo STRETCHES.

    group: the partitions' numbers divided by PARTITIONS. ranges: of each, exclusive of the last.
    """

    topic: str
    group: int
    ranges: Mapping[int, tuple[int, int]]

    def observed(self, young: Column, place: Sequence[Column]) -> Column:
        """Return the aggregate of which stretches have a row of the kind.

        young: whether a row is. place: its topic, partition and offset.
        """
        topic, partition, offset = place
        last = self._lowest + PARTITIONS - 1
        mine = (topic == F.lit(self.topic)) & partition.between(self._lowest, last)
        slot = (partition - F.lit(self._lowest)).cast("bigint")
        stretch = F.shiftright(offset, self.shift).bitwiseAND(F.lit(STRETCHES - 1))
        bit = slot * F.lit(STRETCHES) + stretch
        return F.bitmap_construct_agg(F.when(young & mine, bit))

    def first(self, bitmap: bytes) -> dict[int, int]:
        """Return an offset for each partition that has such rows, none of which is before it.

        It is in the stretch of the first one; where a stretch is one offset, it is the first one's.
        """
        found = {part: self._first(bitmap, part) for part in self.ranges}
        return {part: offset for part, offset in found.items() if offset is not None}

    @property
    def _lowest(self) -> int:
        """The lowest number that a partition of the group can have."""
        return self.group * PARTITIONS

    @cached_property
    def shift(self) -> int:
        """The binary logarithm of a stretch's length."""
        shift = 0
        while any(
            ((end - 1) >> shift) - (start >> shift) >= STRETCHES
            for start, end in self.ranges.values()
        ):
            shift += 1
        return shift

    def _first(self, bitmap: bytes, part: int) -> int | None:
        start, end = self.ranges[part]
        slot = part - self._lowest
        for stretch in range(start >> self.shift, ((end - 1) >> self.shift) + 1):
            byte, bit = divmod(slot * STRETCHES + stretch % STRETCHES, 8)
            if bitmap[byte] >> bit & 1:
                return max(start, stretch << self.shift)
        return None


def stretches(start: Offsets, end: Offsets) -> Iterator[Stretches]:
    """Cut a range of offsets, by topic and partition."""
    for topic, parts in end.items():
        groups: dict[int, dict[int, tuple[int, int]]] = {}
        for part, stop in parts.items():
            ranges = groups.setdefault(part // PARTITIONS, {})
            ranges[part] = (offset_of(start, topic, part), stop)
        for group, ranges in groups.items():
            yield Stretches(topic, group, ranges)
