"""What a batch has read of a topic before a stream goes on, which reads some of it again."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..offsets import Offsets


@dataclass(frozen=True)
class Before:
    """The offsets that were read before, and what becomes of rows beyond them.

    end: the offsets up to which was read, exclusive; of a partition that is not named, nothing was.
    late: which rows beyond them are left out, as their results are out; None leaves none out.
    """

    end: Offsets
    late: Column | None = None

    def again(self, topic: Column, partition: Column, offset: Column) -> Column:
        """Return whether a row was read before."""
        none = F.lit(0).cast("bigint")
        ends = none
        for name, parts in self.end.items():
            if parts:
                keys = F.array(*[F.lit(part).cast("int") for part in parts])
                values = F.array(*[F.lit(at).cast("bigint") for at in parts.values()])
                own = F.try_element_at(F.map_from_arrays(keys, values), partition.cast("int"))
                ends = F.when(topic == F.lit(name), F.coalesce(own, none)).otherwise(ends)
        return offset < ends
