"""A replay that begins in the middle of what its job has read: which of its results are whole.

A result is whole where no record before the start matters to it. The newest event time among these
records, and how far back a result reaches, say from which result time on that is so. Of a job
without state each row is whole; its table's rows bear no offsets, so that such a replay begins
where one of the job's batches did, before which the table's version tells the rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from ...commit import EPOCH
from ...commit.identity import Identity
from ...commit.once import untouched
from ...commit.plan_file import by_partition
from ...errors import ArgumentError, SourceError
from ...jvm import KafkaClient
from ...offsets import EventTimes, Offsets, offset_of
from ...sources.reached import newest as newest_of
from ...sources.topics import client
from ..job import Job
from ..query.comparable import freshness
from ..query.cut import own
from ..query.gaps import found_gaps
from ..query.gaps import told as gaps_told
from ..query.plan import plan_of
from .refused import require_middle
from .seam import seam
from .start import Start, offsets_of

_LOG = logging.getLogger(__name__)
_MICRO = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Middle:
    """What is known of the records before a replay's start.

    whole: results at this instant or before it may lack rows, and are left out; in microseconds
        since 1970. None where no result lacks any.
    newest: where rows are late by the log, what was newest in each partition at the start.
    version: without state, the version of the job's target that holds the rows of before alone.
    apart: why the job's rows of before cannot stand in one table with those of the replay; None
        where they can.
    """

    whole: int | None = None
    newest: EventTimes | None = None
    version: int | None = None
    apart: str | None = None

    @classmethod
    def parse(cls, found: dict[str, Any] | None) -> Middle | None:
        """Return what a file says of it."""
        if found is None:
            return None
        newest = found["newest"]
        return cls(**{**found, "newest": None if newest is None else by_partition(newest)})


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What a commit of the job's target tells: up to where was read, and how new that was."""

    end: Offsets
    latest: int | None = None
    newest: EventTimes | None = None
    version: int | None = None


@dataclass(frozen=True)
class Read:
    """What a job has read by its last whole batch."""

    job: Job
    identity: Identity
    first: Offsets
    end: Offsets
    closed: int


def middle(read: Read, spark: SparkSession, start: Start) -> tuple[Offsets, Middle | None]:
    """Return the offsets at which a replay begins, and what is known of the records before.

    None where there are no records before.

    Raises:
        ArgumentError: for a job whose results of the middle are not known to be whole; for a start
            outside of what the job has read, or so late that no result is whole.
        SourceError: for records before the start that are gone, where nothing else tells their
            event times.
    """
    job = read.job
    require_middle(job)
    at = offsets_of(job, spark, start, first=read.first, end=read.end)
    keeps_state = job.keeps_state
    known = _known(read, spark, at, timed=keeps_state)
    if not keeps_state:
        at = {topic: {part: offset_of(known.end, topic, part) for part in parts}
              for topic, parts in at.items()}  # fmt: skip
        if known.version is None:
            _LOG.info("%s: no batch ended before these offsets: the replay is whole", job.name)
            return read.first, None
        _LOG.info("%s: the replay begins at %s, where a batch of the job began", job.name, at)
        return at, Middle(version=known.version)
    if _covers(read.first, at):
        return read.first, None
    newest = _newest(job, spark, known, at)
    times = [known.latest, *(time for parts in newest.values() for time in parts.values())]
    latest = max((time for time in times if time is not None), default=None)
    whole = None if latest is None else latest + _reach(job)
    _require_some(read, whole)
    found = Middle(
        whole=whole, newest=newest if job.by_log else None, apart=seam(job, read.identity)
    )
    return at, found


def _known(read: Read, spark: SparkSession, at: Offsets, *, timed: bool) -> _Known:
    """Return the newest commit of the job's target that ends at these offsets or before.

    timed: only such a commit whose event times are those that the job reads now.
    """
    job, identity = read.job, read.identity
    mark = identity.tables.get(job.sink.step)
    nothing = _Known(end=read.first)
    if mark is None or (timed and not _same_times(job, identity)):
        return nothing
    query = identity.written_as(identity.query or "")
    for version, found in untouched(spark, mark.path).standing():
        own_batch = (found.job, found.query, found.step) == (job.name, query, job.sink.step)
        if not own_batch or version > mark.version:
            continue
        before = _covers(at, found.end)
        told = not timed or (found.latest is not None and (found.newest or not job.by_log))
        if before and told:
            end = {topic: {**parts, **found.end.get(topic, {})}
                   for topic, parts in read.first.items()}  # fmt: skip
            end |= {topic: parts for topic, parts in found.end.items() if topic not in end}
            return _Known(end=end, latest=found.latest, newest=found.newest, version=version)
    return nothing


def _covers(at: Offsets, end: Offsets) -> bool:
    """Return whether all partitions of some offsets are at others or before them."""
    return all(
        stop <= offset_of(at, topic, part)
        for topic, parts in end.items()
        for part, stop in parts.items()
    )


def _same_times(job: Job, identity: Identity) -> bool:
    """Return whether the job reads event times as the one that ran."""
    now = plan_of(job)
    parts = [f"{name}.{part}" for name in job.inputs for part in ("format", "reading")]
    return all(now[part] == identity.plan.get(part) for part in parts)


def _newest(job: Job, spark: SparkSession, known: _Known, at: Offsets) -> EventTimes:
    """Return the newest event time of each partition before the start, as far as it is known."""
    found: EventTimes = {topic: dict(parts) for topic, parts in (known.newest or {}).items()}
    for given in job.inputs.values():
        ends = own(given.reading, at)
        with client(spark, given.reading.source) as asked:
            _require_there(asked, known.end, ends)
        rows = given.reading.timed(spark, known.end, ends)
        for topic, parts in newest_of(rows, given.reading.place).items():
            mine = found.setdefault(topic, {})
            for part, time in parts.items():
                mine[part] = max(time, mine.get(part, time))
    return found


def _require_there(asked: KafkaClient, start: Offsets, end: Offsets) -> None:
    gaps = found_gaps(start, end, asked.earliest(end))
    if gaps:
        raise SourceError(
            f"records before the start are gone from the topic, and no commit of the job tells "
            f"their event times: {gaps_told(gaps)}.",
            "records of which the event times are known: they say which results are whole.",
            "a later start, after a batch of the job that has read them.",
        )


def _reach(job: Job) -> int:
    reach = None if job.transform is None else job.transform.reach
    assert reach is not None  # Refused by require_middle.
    return reach // _MICRO


def _require_some(read: Read, whole: int | None) -> None:
    """Refuse a start so late that the job has no whole result after it.

    Results up to there are taken from the job, which must have them all by then.
    """
    last = read.closed * 1000 - freshness(read.job) // _MICRO
    if whole is not None and whole >= last:
        since, until = (EPOCH + at * _MICRO for at in (whole, last))
        raise ArgumentError(
            f"from leaves nothing to compare: results are whole after {since.isoformat()}, and the "
            f"job has all of those up to {until.isoformat()}.",
            "a start so early that results of the job are whole.",
            "an earlier start; or the job goes on first, and is replayed then.",
        )
