"""What is known of each partition of an offset range once it was read, counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ..offsets import EventTimes, Offsets
from ._stretches import Stretches, stretches
from .event_time import EVENT_TIME


@dataclass(frozen=True)
class Reached:
    """From where on each partition has rows at an instant or after it, and its newest event time.

    Counted by aggregates beside the query's, which are computed for every row. Rows that `where`
    leaves out count too, as they do for the watermark.

    start, end: the range, exclusive of its end. since: the instant, in microseconds since 1970.
    times: whether the newest event times are asked for, by an aggregate for each partition.
    """

    start: Offsets
    end: Offsets
    since: int
    times: bool = False
    _seen: Observation = field(default_factory=Observation, compare=False, repr=False)

    def observing(self, rows: DataFrame, good: Column, place: Sequence[Column]) -> DataFrame:
        """Return the rows, of which the good ones are looked at.

        place: the columns of a row's topic, partition and offset.
        """
        topic, partition, _ = place
        time = F.when(good, F.unix_micros(EVENT_TIME))
        # Most rows of a backlog are older, and nothing more is asked of them.
        young = time >= F.lit(self.since)
        metrics = [each.observed(young, place).alias(_young(each)) for each in self._stretches]
        if self.times:
            for name, part in self._places():
                own = (partition == F.lit(part)) & (topic == F.lit(name))
                metrics.append(F.max(F.when(own, time)).alias(_newest(name, part)))
        return rows.observe(self._seen, *metrics) if metrics else rows

    def newest(self) -> EventTimes:
        """Return the newest event times, if `times` asks for them, once the range was read.

        Of a partition without a good row there is none.
        """
        found: EventTimes = {}
        for topic, part in self._places():
            time = self._seen.get[_newest(topic, part)]
            if time is not None:
                found.setdefault(topic, {})[part] = time
        return found

    def first(self) -> Offsets:
        """Return from where on there are rows at the instant or after it, once the range was read.

        None of them is before that offset, which may be that of a row somewhat before the first: by
        a five-hundredth of the longest range. Of a partition without such a row it is the range's
        end.
        """
        found = {topic: dict(parts) for topic, parts in self.end.items()}
        for each in self._stretches:
            found[each.topic] |= each.first(self._seen.get[_young(each)])
        return found

    @cached_property
    def _stretches(self) -> list[Stretches]:
        return list(stretches(self.start, self.end))

    def _places(self) -> Iterator[tuple[str, int]]:
        for topic, parts in self.end.items():
            for part in parts:
                yield topic, part


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


def _young(of: Stretches) -> str:
    return f"young of {of.topic}, {of.group}"
