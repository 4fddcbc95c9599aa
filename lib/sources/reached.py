"""What is known of each partition of an offset range once it was read, counted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ..offsets import EventTimes, Offsets
from .event_time import EVENT_TIME


@dataclass(frozen=True)
class Reached:
    """The first offset of each partition at an instant or after it, and its newest event time.

    Each of them is an aggregate beside the query's, computed for every row. Rows that `where`
    leaves out count too, as they do for the watermark.

    end: where the range ends, exclusive. since: the instant, in microseconds since 1970.
    times: whether the newest event times are asked for.
    """

    end: Offsets
    since: int
    times: bool = False
    _seen: Observation = field(default_factory=Observation, compare=False, repr=False)

    def observing(self, rows: DataFrame, good: Column, place: Sequence[Column]) -> DataFrame:
        """Return the rows, of which the good ones are looked at.

        place: the columns of a row's topic, partition and offset.
        """
        topic, partition, offset = place
        time = F.when(good, F.unix_micros(EVENT_TIME))
        metrics = []
        for name, part in self._places():
            own = (partition == F.lit(part)) & (topic == F.lit(name))
            # Most rows of a backlog are older, and nothing more is asked of them.
            young = (time >= F.lit(self.since)) & own
            metrics.append(F.min(F.when(young, offset)).alias(_first(name, part)))
            if self.times:
                metrics.append(F.max(F.when(own, time)).alias(_newest(name, part)))
        return rows.observe(self._seen, *metrics) if metrics else rows

    def newest(self) -> EventTimes:
        """Return the newest event times, if `times` asks for them, once the range was read.

        Of a partition without a good row there is none.
        """
        return self._found(_newest)

    def first(self) -> Offsets:
        """Return the first offsets at the instant or after it, once the range was read.

        Of a partition without such a row it is the range's end.
        """
        found = self._found(_first)
        return {topic: {**parts, **found.get(topic, {})} for topic, parts in self.end.items()}

    def _places(self) -> Iterator[tuple[str, int]]:
        for topic, parts in self.end.items():
            for part in parts:
                yield topic, part

    def _found(self, name: Callable[[str, int], str]) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for topic, part in self._places():
            number = self._seen.get[name(topic, part)]
            if number is not None:
                found.setdefault(topic, {})[part] = number
        return found


def newest(rows: DataFrame, place: Sequence[str]) -> EventTimes:
    """Return the newest event time of each partition of which there are rows.

    place: what the rows call their topic, partition and offset.
    """
    times = rows.groupBy(*place[:2]).agg(F.max(F.unix_micros(EVENT_TIME)))
    return _by_partition(times)


def first_at(rows: DataFrame, place: Sequence[str], since: int) -> Offsets:
    """Return the first offset of each partition of which rows are at an instant or after it.

    place: what the rows call their topic, partition and offset. since: in microseconds since 1970.
    """
    young = rows.where(F.unix_micros(EVENT_TIME) >= F.lit(since))
    return _by_partition(young.groupBy(*place[:2]).agg(F.min(place[2])))


def _by_partition(numbers: DataFrame) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, part, number in numbers.collect():
        found.setdefault(topic, {})[part] = number
    return found


def _newest(topic: str, part: int) -> str:
    return f"newest of {topic}-{part}"


def _first(topic: str, part: int) -> str:
    return f"first of {topic}-{part}"
