"""Lateness by the log in a run: what was newest in each partition, from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...commit.identity import Identity
from ...durations import microseconds
from ...errors import ArgumentError, CheckpointError
from ...jvm import tell_tasks
from ...offsets import EventTimes
from ...sources.by_log import PROPERTY, ByLog, told
from ...sources.event_time import EVENT_TIME
from ..job import Input, Job


def by_log(job: Job) -> dict[str, ByLog]:
    """Return how rows are late by the log, of each input of which they are.

    Raises:
        ArgumentError: for a transform that says of no row that it is late.
    """
    chosen = {name: given for name, given in job.inputs.items() if given.by_log}
    return {name: _of(job, given) for name, given in chosen.items()}


def _of(job: Job, given: Input) -> ByLog:
    late_at = None if job.transform is None else job.transform.late_at(F.col(EVENT_TIME))
    if late_at is None:
        raise ArgumentError(
            f"watermarks is 'log', and no row is late for {type(job.transform).__name__}.",
            "a transform that says which rows are late.",
            "watermarks='partition'",
        )
    lateness = microseconds(given.reading.lateness, "lateness", least=0)
    return ByLog(late_at, timedelta(microseconds=lateness))


def newest_before(job: Job, identity: Identity, number: int) -> EventTimes | None:
    """Return what was newest where a batch begins; None where no row is late by the log.

    number: the batch's, by the checkpoint's own count.

    Raises:
        CheckpointError: where the checkpoint does not tell it.
    """
    if not job.by_log:
        return None
    found = identity.newest.get(number - 1) if number else _at_first(identity)
    if found is None:
        raise CheckpointError(
            f"{job.places.checkpoint} does not tell which events were the newest before batch "
            f"{number}, by which its rows are late.",
            "a checkpoint that began with watermarks='log'.",
            "begin anew with a new checkpoint and new tables. Nothing was written.",
        )
    return found


def _at_first(identity: Identity) -> EventTimes | None:
    """Return what was newest where a checkpoint's first batch begins."""
    if identity.resumed is not None:
        return identity.resumed.newest
    return {} if identity.backlog is None else identity.backlog.newest_again


def tell(spark: SparkSession, newest: EventTimes | None) -> None:
    """Let the tasks of this thread's Spark jobs know what was newest where the batch begins."""
    if newest is not None:
        tell_tasks(spark, PROPERTY, told(newest))


def newest_after(before: EventTimes | None, seen: Iterable[EventTimes]) -> EventTimes | None:
    """Return what is newest where a batch ends, by what was newest before it and in it."""
    if before is None:
        return None
    found = {topic: dict(parts) for topic, parts in before.items()}
    for times in seen:
        for topic, parts in times.items():
            own = found.setdefault(topic, {})
            for part, time in parts.items():
                own[part] = max(time, own.get(part, time))
    return found
