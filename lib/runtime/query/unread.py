"""How much waits for a new checkpoint, and where a batch over it would end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from pyspark.sql import Column, SparkSession

from ...commit.origins import Backlog
from ...durations import microseconds
from ...errors import SourceError
from ...joins import IntervalJoin
from ...offsets import Offsets
from ...sources.topics import client, states_of
from ...transform import Stateless
from ...windows import Session, Windowed
from ..job import Job
from . import cut

_LOG = logging.getLogger(__name__)
_MICRO = timedelta(microseconds=1)
_LATEST = -1
_EARLIEST = -2


def planned(job: Job, spark: SparkSession) -> Backlog | None:
    """Return what a batch would read; None where there is too little, or no watermark yet."""
    start, end = _waiting(job, spark)
    waits = sum(stop - start[topic][part] for topic, ps in end.items() for part, stop in ps.items())
    if job.backlog is None or waits <= job.backlog:
        return None
    found = Backlog(query=str(uuid4()), start=start, end=end, again=end, until=None)
    if job.transform is None or isinstance(job.transform, Stateless):
        return found
    at = cut.watermark(job, spark, start, end)
    until = None if at is None else cut.boundary(spark, job.transform, at)
    if until is None or until - reach(job) <= 0:
        _LOG.warning("%s: %s records wait, and are read as a stream: no watermark", job.name, waits)
        return None
    return replace(found, until=until)


def _waiting(job: Job, spark: SparkSession) -> tuple[Offsets, Offsets]:
    """Return from where and up to where each partition has records that a job is to read."""
    start: Offsets = {}
    end: Offsets = {}
    for given in job.inputs.values():
        source = given.reading.source
        try:
            with client(spark, source) as asked:
                states = states_of(asked, source)
                all_parts = {name: range(state.partitions) for name, state in states.items()}
                parts = source.partitions or all_parts
                first = asked.earliest(parts)
                last = asked.latest(parts)
        except OSError as error:
            raise SourceError(
                f"{error}.",
                "brokers that answer, and tell how much waits in their topics.",
                f"see that a broker runs at {source.servers}, or name other servers.",
            ) from error
        asked_for = source.start if isinstance(source.start, Mapping) else {}
        for topic, ends in last.items():
            own = asked_for.get(topic, {})
            begins = {
                part: _begin(own.get(part, _EARLIEST), first[topic][part], stop)
                for part, stop in ends.items()
            }
            start[topic] = begins
            end[topic] = {part: max(stop, begins[part]) for part, stop in ends.items()}
    return start, end


def _begin(asked: int, first: int, stop: int) -> int:
    """Return the offset that a partition is to be read from: Spark has two numbers for its ends."""
    if asked == _EARLIEST:
        return first
    return stop if asked == _LATEST else asked


def reach(job: Job) -> int:
    """Return how far before the cut rows matter to the stream; sessions say it by their rows."""
    transform = job.transform
    if transform is None or transform.reach is None or in_sessions(job):
        return 0
    return transform.reach // _MICRO


def reach_of(job: Job, name: str) -> int:
    """Return how far before the cut rows of one input matter to the stream."""
    if isinstance(job.transform, IntervalJoin):
        return job.transform.reaches[list(job.inputs).index(name)] // _MICRO
    return reach(job)


def in_sessions(job: Job) -> bool:
    """Return whether a job's results are sessions, which say themselves how far back they reach."""
    return gap(job) > 0


def gap(job: Job) -> int:
    """Return the gap of a job's sessions, in microseconds; 0 where its results are none."""
    window = job.transform.window if isinstance(job.transform, Windowed) else None
    # A gap of each event's own is refused for a backlog.
    if not isinstance(window, Session) or isinstance(window.gap, Column):
        return 0
    return microseconds(window.gap, "gap")
