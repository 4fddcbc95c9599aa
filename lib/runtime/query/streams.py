"""The streams of a job: one for each input, or for each share of its partitions.

Each stream has a watermark of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from ...commit.plan_file import last_planned
from ...durations import microseconds
from ...errors import ArgumentError, CheckpointError, SourceError
from ...offsets import Offsets
from ...sources import Heartbeats, KafkaSource, Reading
from ...sources.before import Before
from ...sources.by_log import ByLog
from ...sources.reading import OBSERVATION
from ...sources.topics import topic_states
from ..job import Input, Job
from .by_log import by_log


@dataclass(frozen=True)
class Stream:
    """One source under a watermark of its own; Spark takes the smallest of a query's.

    name: its topics, or its partitions, as the progress shows it. observation: the name of its
    counts.
    """

    name: str
    reading: Reading
    observation: str
    heartbeats: Heartbeats | None

    @property
    def reads(self) -> list[str]:
        """Its topics, and its partitions where it reads those alone, as "topic-0"."""
        return self.name.split(", ")

    @property
    def lateness(self) -> int:
        """How far its watermark is behind its newest event, in microseconds."""
        return microseconds(self.reading.lateness, "lateness", least=0)


def streams(job: Job, spark: SparkSession) -> dict[str, list[Stream]]:
    """Return the streams of each input of a job, by the input's name."""
    several = any(given.watermarks != 1 for given in job.inputs.values())
    planned = last_planned(spark, job.places.checkpoint) if several else []
    return {
        name: _of(job, spark, index, given, planned)
        for index, (name, given) in enumerate(job.inputs.items())
    }


def frames(
    job: Job,
    inputs: Mapping[str, Sequence[Stream]],
    spark: SparkSession,
    before: Before | None = None,
) -> dict[str, DataFrame]:
    """Return one DataFrame for each input; `before` is what a batch has read already."""
    late = by_log(job)
    return {name: _united(each, spark, before, late.get(name)) for name, each in inputs.items()}


def _united(
    streams: Sequence[Stream], spark: SparkSession, before: Before | None, late: ByLog | None
) -> DataFrame:
    parts = [
        each.reading.stream(spark, each.observation, each.heartbeats, before, late)
        for each in streams
    ]
    return reduce(DataFrame.unionByName, parts)


def _of(
    job: Job, spark: SparkSession, index: int, given: Input, planned: Sequence[Offsets]
) -> list[Stream]:
    named = f"{OBSERVATION} {index}"
    if given.watermarks == 1:
        return [
            Stream(
                ", ".join(given.reading.source.named),
                given.reading,
                named,
                _beats(job, given, named),
            )
        ]
    return [
        Stream(_told(part), part, f"{named}/{number}", _beats(job, given, f"{named}/{number}"))
        for number, part in enumerate(_shares(spark, given, planned))
    ]


def _beats(job: Job, given: Input, name: str) -> Heartbeats | None:
    place = name.removeprefix(OBSERVATION).strip().replace("/", "-")
    return None if given.idle is None else Heartbeats(f"{job.places.checkpoint}/heartbeats/{place}")


def _shares(spark: SparkSession, given: Input, planned: Sequence[Offsets]) -> list[Reading]:
    source = given.reading.source
    counts = {} if source.partitions else _counts(spark, source)
    total = sum(map(len, (source.partitions or {}).values())) or sum(counts.values())
    number = given.watermarks if isinstance(given.watermarks, int) else None
    before = _dealt(planned, source)
    if given.by_log:
        _require_no_more(before, source, counts)
    if before and number in (None, len(before)):
        shares = source.shares(counts, number, before)
        return [replace(given.reading, source=share) for share in shares]
    if number is not None and number > total:
        raise ArgumentError(
            f"watermarks is {number}, and {', '.join(source.named)} has {total} partitions.",
            "at most one watermark a partition.",
            'watermarks="partition"',
        )
    return [replace(given.reading, source=share) for share in source.shares(counts, number)]


def _dealt(planned: Sequence[Offsets], source: KafkaSource) -> list[Offsets]:
    """Return the shares of a source as a checkpoint has them, each with its partitions."""
    dealt: list[Offsets] = []
    seen = set[tuple[tuple[str, int], ...]]()
    for offsets in planned:
        mine = {topic: parts for topic, parts in offsets.items() if topic in source.named}
        places = tuple((topic, part) for topic, parts in mine.items() for part in sorted(parts))
        # A source whose rows the transform uses twice is there twice.
        if places and places not in seen:
            seen.add(places)
            dealt.append(mine)
    return dealt


def _require_no_more(
    before: Sequence[Offsets], source: KafkaSource, counts: Mapping[str, int]
) -> None:
    """Refuse a partition that the checkpoint has no stream of its own for."""
    there = source.partitions or {topic: range(count) for topic, count in counts.items()}
    known = {(topic, part) for share in before for topic, parts in share.items() for part in parts}
    new = [
        f"{topic}-{part}"
        for topic, parts in there.items()
        for part in parts
        if before and (topic, part) not in known
    ]
    if new:
        raise CheckpointError(
            f"{', '.join(new)} came after the checkpoint, which has no stream of its own for it.",
            "the partitions that it began with, where rows are late by the log.",
            "name the partitions that there were; or begin anew with a new checkpoint and new "
            "tables. Nothing was written.",
        )


def _counts(spark: SparkSession, source: KafkaSource) -> dict[str, int]:
    allowed = "a broker that answers, and topics that are there, for a watermark on each partition."
    try:
        found = topic_states(spark, source)
    except OSError as error:
        raise SourceError(f"{error}.", allowed) from error
    missing = [name for name in source.named if name not in found]
    if missing:
        raise SourceError(f"there is no topic {', '.join(missing)} at {source.servers}.", allowed)
    return {name: state.partitions for name, state in found.items()}


def _told(reading: Reading) -> str:
    parts = reading.source.partitions or {}
    return ", ".join(f"{topic}-{part}" for topic, numbers in parts.items() for part in numbers)
