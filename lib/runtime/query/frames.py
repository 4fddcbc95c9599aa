"""The frames of a job: what its query computes, and what each batch hands to the sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...errors import ArgumentError, ColumnTypeError
from ...frames import ROWS
from ...sources.event_time import EVENT_TIME
from ...windows import Windowed
from ..job import Job
from .side_outputs import Late
from .tagging import tagged, untagged


def streaming(job: Job, inputs: Mapping[str, DataFrame], *, whole: int | None = None) -> DataFrame:
    """Return what the job's query computes of its inputs.

    whole: results at this instant or before it are left out, in microseconds since 1970: state that
    they need was lost with a checkpoint.

    Windows that are written while they are open are made per batch; the query then hands on the
    rows as they are.
    """
    if job.transform is None or job.emission == "updates":
        return tagged(**inputs) if len(inputs) > 1 else next(iter(inputs.values()))
    transform = partials(job) if job.merges else job.transform
    rows = _frame(transform(*inputs.values()), "the transform")
    if whole is None or transform.result_time is None:
        return rows
    return rows.where(transform.result_time > F.timestamp_micros(F.lit(whole)))


@contextmanager
def handed_on(job: Job, batch: DataFrame, late: Sequence[Late]) -> Iterator[dict[str, DataFrame]]:
    """Return the frames that the sink gets of a batch, by name.

    What is made per batch is kept while the block runs: a sink may read it several times.
    """
    made = _made(job, batch, late)
    if made is None:
        yield _by_name(job, batch) if not job.merges else {ROWS: _corrected(job, batch, late)}
        return
    rows = made.persist()
    try:
        yield {ROWS: rows}
    finally:
        rows.unpersist()


def _made(job: Job, batch: DataFrame, late: Sequence[Late]) -> DataFrame | None:
    """Return the rows that are made per batch; None where the query's own reach the sink."""
    if job.emission == "updates":
        return _frame(partials(job)(_in_time(job, batch, late)), "the transform")
    if job.each_batch is None:
        return None
    frames = _by_name(job, batch)
    if len(frames) == 1:
        return _frame(job.each_batch(*frames.values()), "each_batch")
    return _frame(job.each_batch(**frames), "each_batch")


def partials(job: Job) -> Windowed:
    """Return the job's windows with unfinished aggregates, which `Corrected` merges."""
    if not isinstance(job.transform, Windowed):
        raise ArgumentError(f"the transform is {job.transform!r}.", "a Windowed.")
    return job.transform.partials()


def _by_name(job: Job, batch: DataFrame) -> dict[str, DataFrame]:
    if job.transform is not None:
        return {ROWS: batch}
    if len(job.inputs) == 1:
        return dict.fromkeys(job.inputs, batch)
    return {name: untagged(batch, name) for name in job.inputs}


def _in_time(job: Job, batch: DataFrame, late: Sequence[Late]) -> DataFrame:
    """Leave out the rows that are too late to correct their windows."""
    rows = batch
    late_at = None if job.transform is None else job.transform.late_at(F.col(EVENT_TIME))
    for each in late:
        if each.count and late_at is not None:
            rows = rows.where(late_at > F.lit(each.since))
    return rows


def _corrected(job: Job, batch: DataFrame, late: Sequence[Late]) -> DataFrame:
    """Add the windows that late rows correct to those that have closed."""
    rows = batch
    for each in late:
        correcting = each.correcting()
        if correcting is not None:
            rows = rows.unionByName(partials(job)(correcting))
    return rows


def _frame(made: object, what: str) -> DataFrame:
    if not isinstance(made, DataFrame):
        raise ColumnTypeError(f"{what} gave {made!r}.", "a DataFrame.")
    return made
