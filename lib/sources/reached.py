"""What was newest in each partition at two places of an offset range, counted while it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ..offsets import EventTimes, Offsets
from .event_time import EVENT_TIME


@dataclass(frozen=True)
class Reached:
    """The newest event time of each partition, where a range ends and where it is read again from.

    end, again: the two places, exclusive, by partition.
    """

    end: Offsets
    again: Offsets
    _seen: Observation = field(default_factory=Observation, compare=False)

    def observing(self, rows: DataFrame, good: Column, place: Sequence[Column]) -> DataFrame:
        """Return the rows, of which the good ones are looked at.

        place: the columns of a row's topic, partition and offset.
        """
        topic, partition, offset = place
        time = F.when(good, F.unix_micros(EVENT_TIME))
        metrics = []
        for name, part in self._places():
            own = (topic == F.lit(name)) & (partition == F.lit(part))
            earlier = own & (offset < F.lit(self.again[name][part]))
            metrics.append(F.max(F.when(own, time)).alias(_at_end(name, part)))
            metrics.append(F.max(F.when(earlier, time)).alias(_at_again(name, part)))
        return rows.observe(self._seen, *metrics) if metrics else rows

    def at_end(self) -> EventTimes:
        """Return what was newest where the range ends, once it was read."""
        return self._found(_at_end)

    def at_again(self) -> EventTimes:
        """Return what was newest where the range is read again from, once it was read."""
        return self._found(_at_again)

    def _places(self) -> Iterator[tuple[str, int]]:
        for topic, parts in self.end.items():
            for part in parts:
                yield topic, part

    def _found(self, name: Callable[[str, int], str]) -> EventTimes:
        found: EventTimes = {}
        for topic, part in self._places():
            newest = self._seen.get[name(topic, part)]
            if newest is not None:
                found.setdefault(topic, {})[part] = newest
        return found


def _at_end(topic: str, part: int) -> str:
    return f"end of {topic}-{part}"


def _at_again(topic: str, part: int) -> str:
    return f"again of {topic}-{part}"
