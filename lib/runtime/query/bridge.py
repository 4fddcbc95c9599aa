"""From the batch of a backlog to its stream, which reads again what its results need.

What is read again must be the stream's first batch, whole: Spark drops nothing as late there, so
that no row which the batch has counted is late a second time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pyspark.sql import functions as F

from ...commit import EPOCH, Batch
from ...commit.origins import Backlog
from ...errors import CheckpointError
from ...offsets import Offsets, offset_of
from ...sources.before import Before
from ...sources.event_time import EVENT_TIME
from ..job import Input, Job


def before(job: Job, backlog: Backlog | None) -> Before | None:
    """Return what a stream has to know of the batch before it; None where there is nothing."""
    if backlog is None or backlog.until is None or job.transform is None:
        return None
    if job.by_log:
        # What is late for the batch's results is late by the log.
        return Before(end=backlog.end)
    late_at = job.transform.late_at(F.col(EVENT_TIME))
    until = F.timestamp_micros(F.lit(backlog.until))
    return Before(end=backlog.end, late=None if late_at is None else late_at <= until)


def at_once(job: Job) -> Job:
    """Return the job with inputs that are read in one batch, however much there is."""
    return replace(job, inputs={name: _unbounded(given) for name, given in job.inputs.items()})


def after_backlog(batch: Batch, backlog: Backlog) -> Batch:
    """Return a stream's batch with the watermark that the batch before the stream stands for.

    Rows that would change a result of that batch are late.

    Raises:
        CheckpointError: for a first batch that does not read again all that is needed.
    """
    if backlog.until is None:
        return batch
    if batch.number == 1:
        _require_whole(batch, backlog)
    until = EPOCH + timedelta(microseconds=backlog.until)
    return replace(batch, late_watermark=max(batch.late_watermark, until))


def unread(batch: Batch, end: Offsets) -> Batch:
    """Return a batch without the offsets that were read before."""
    start = {
        topic: {
            part: min(stop, max(offset_of(batch.start, topic, part), offset_of(end, topic, part)))
            for part, stop in parts.items()
        }
        for topic, parts in batch.end.items()
    }
    return replace(batch, start=start)


def _require_whole(batch: Batch, backlog: Backlog) -> None:
    short = [
        f"{topic}-{part}: {offset_of(batch.end, topic, part)} of {stop}"
        for topic, parts in backlog.end.items()
        for part, stop in parts.items()
        if offset_of(batch.end, topic, part) < stop
    ]
    if short:
        raise CheckpointError(
            f"the first batch after the backlog ends before it: {', '.join(short)}.",
            "a first batch that reads again all that the stream's results need.",
            "a source without options that bound its batches, with a new checkpoint and new "
            "tables. Nothing of this batch was written.",
        )


def _unbounded(given: Input) -> Input:
    source = replace(given.reading.source, max_rows=None)
    return replace(given, reading=replace(given.reading, source=source))
