"""Rows of a batch that are set aside: those that cannot be read, and those that are late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...commit import Batch
from ...commit.counted import require_counted
from ...commit.side_by_side import committed_before
from ...durations import microseconds
from ...eventtime.changing import changing
from ...jvm import observed
from ...offsets import EventTimes
from ...sinks import SideTable
from ...sources.aside import Behind, SetAside
from ...sources.event_time import EVENT_TIME
from ..job import Input, Job
from .accounting import Again, Observed, check_late, tally
from .by_log import by_log
from .streams import Stream


@dataclass(frozen=True)
class Part:
    """What a batch has of one input.

    batch: with the input's own offsets. seen: what was counted of them.
    reached: each stream's own watermark.
    newest: of an input whose rows are late by the log, what was newest in each partition where the
        batch begins; None of any other. newer: what was newest within the batch.
    """

    name: str
    input: Input
    batch: Batch
    seen: Observed
    reached: Mapping[str, int | None]
    newest: EventTimes | None = None
    newer: EventTimes = field(default_factory=dict)


def counted(
    query: StreamingQuery,
    name: str,
    given: Input,
    streams: Sequence[Stream],
    batch: Batch,
    newest: EventTimes | None = None,
    again: Again | None = None,
) -> Part:
    """Add up what was counted of an input's streams, and check it.

    again: how it is counted once more where that may be wrong.
    """
    counts = [(stream, observed(query, stream.observation)) for stream in streams]
    reached: dict[str, int | None] = {}
    newer: EventTimes = {}
    for stream, found in counts:
        latest = None if found is None else found["latest"]
        reached[stream.name] = None if latest is None else latest - stream.lateness
        if given.by_log and latest is not None:
            topic, partition = stream.reading.source.place
            newer.setdefault(topic, {})[partition] = latest
    seen = tally(batch, [found for _, found in counts if found is not None], again)
    return Part(name, given, batch, seen, reached, newest, newer)


@dataclass(frozen=True)
class Late:
    """A batch's late rows of one input.

    count: how many there are. corrected: how many of them still correct their windows.
    since: rows that were late at this instant or before it are too late for that; None where none
        corrects anything.
    rows: with `closes`, the instant from which each was late, and `watermark`.
    """

    count: int = 0
    corrected: int = 0
    since: datetime | None = None
    rows: DataFrame | None = None

    def correcting(self) -> DataFrame | None:
        """Return the rows that still correct their windows; None without any."""
        if self.rows is None or self.since is None or not self.corrected:
            return None
        closes = F.col("closes")
        return self.rows.where(closes > changing(self.since, closes))

    def write(self, table: SideTable, batch: Batch) -> None:
        """Write the rows that correct nothing."""
        kept = self.count - self.corrected
        if self.rows is not None and kept:
            too_late = self.rows
            if self.since is not None and self.corrected:
                closes = F.col("closes")
                too_late = too_late.where(closes <= changing(self.since, closes))
            table.write(too_late, batch, expected=kept)


@dataclass(frozen=True)
class Aside:
    """What a batch sets aside of one input, until `release`.

    rows: both kinds, read once; None where there are none. dead: how many cannot be read.
    """

    rows: SetAside | None = None
    dead: int = 0
    late: Late = field(default_factory=Late)

    def letters(self) -> DataFrame | None:
        """Return the dead letters; None where nothing was read again."""
        return None if self.rows is None else self.rows.dead()

    def release(self) -> None:
        """Let the memory go."""
        if self.rows is not None:
            self.rows.rows.unpersist()


@contextmanager
def all_set_aside(
    job: Job, spark: SparkSession, batch: Batch, parts: Iterable[Part], *, kept: bool = False
) -> Iterator[Mapping[str, Aside]]:
    """Return what is set aside of each input, by its name, to be used while the block runs.

    kept: whether the dead letters are read once more after they are written, by their reasons.
    """
    aside: dict[str, Aside] = {}
    try:
        for part in parts:
            aside[part.name] = set_aside(job, spark, batch, part, kept=kept)
        yield aside
    finally:
        for each in aside.values():
            each.release()


def set_aside(
    job: Job, spark: SparkSession, batch: Batch, part: Part, *, kept: bool = False
) -> Aside:
    """Read the rows of an input again that are set aside: unreadable ones, and late ones.

    Late are those that the transform leaves out, by what it says of them itself. Their number is in
    the stamps of the batch, so they are read and kept in memory before anything is written.

    kept: whether the dead letters are kept too where none is late. Otherwise they are read as they
        are written, and counted by that commit.
    """
    behind = _behind(job, batch, part)
    if behind is None and not part.seen.dead:
        return Aside()
    found = part.input.reading.aside(spark, part.batch.start, part.batch.end, behind)
    if behind is None and not kept:
        return Aside(found, part.seen.dead)
    found.rows.persist()
    by_watermark = behind is not None and behind.log is None
    since = batch.late_watermark - _limit(job) if by_watermark else None
    try:
        dead, late, corrected = found.counts(since)
        if part.newest is not None:
            check_late(batch, part.seen.late, late)
    except BaseException:
        found.rows.unpersist()
        raise
    return Aside(found, dead, Late(late, corrected, since, found.late() if late else None))


@contextmanager
def kept_aside(
    job: Job, spark: SparkSession, batch: Batch, aside: Mapping[str, Aside]
) -> Iterator[Batch]:
    """Write the dead letters of all inputs, and the late rows of each, while the block runs.

    Yields the batch whose target can be written meanwhile, and is committed after them.
    """
    writes: list[tuple[SideTable, Callable[[], object]]] = []
    dead = job.places.dead
    found = sum(each.dead for each in aside.values())
    require_counted(
        found, counted=batch.dead or 0, step=dead.step, batch=batch.number, path=dead.path
    )
    if batch.dead:
        letters = [rows for each in aside.values() if (rows := each.letters()) is not None]
        united = reduce(DataFrame.unionByName, letters)
        writes.append((dead, partial(dead.write, united, batch, expected=batch.dead)))
    for name, each in aside.items():
        if each.late.count > each.late.corrected:
            late = job.places.late[name]
            writes.append((late, partial(each.late.write, late, batch)))
    meanwhile = []
    for table, write in writes:
        # A merge into the target lets the session's other commits bear its stamp, but for appends.
        if table.is_made_apart(spark):
            write()
        else:
            meanwhile.append(write)
    with committed_before(batch, spark, meanwhile) as waiting:
        yield waiting


def _behind(job: Job, batch: Batch, part: Part) -> Behind | None:
    """Return which rows of an input are late; None where none of the batch can be."""
    if part.newest is not None:
        late = by_log(job)[part.name]
        return None if not part.seen.late else Behind.by_log(late, part.newest)
    if job.transform is None or part.seen.earliest is None:
        return None
    # A row at or past the watermark is in time, whatever the transform.
    if part.seen.earliest >= batch.late_watermark.timestamp() * 1_000_000:
        return None
    late_at = job.transform.late_at(F.col(EVENT_TIME))
    return None if late_at is None else Behind(late_at, batch.late_watermark)


def _limit(job: Job) -> timedelta:
    """Return for how long after it became late a row still corrects its windows."""
    if job.corrections is None:
        return timedelta(0)
    return timedelta(microseconds=microseconds(job.corrections, "corrections", least=0))
