"""What a run has left open, and when it comes out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...durations import microseconds
from ...windows import Windowed
from ..job import Job
from ..summary import Summary

_OLD = 365 * 86_400 * 1_000_000
"""A year after 1970 in microseconds: where seconds end up that were taken for milliseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def waiting(job: Job, spark: SparkSession, done: Summary) -> str | None:
    """Return what a run says of results that are not out yet.

    None where nothing waits: without state, without a row, or with windows shown while open.
    """
    marks = [mark for mark in done.reached.values() if mark is not None]
    if job.emission == "updates" or not marks or len(marks) < len(done.reached):
        return None
    next_at = _next(job, spark, min(marks))
    if next_at is None:
        return None
    lateness = max(
        microseconds(given.reading.lateness, "lateness", least=0) for given in job.inputs.values()
    )
    odd = "; a time in 1970 speaks of another time_unit" if min(marks) < _OLD else ""
    where = "in each input " if len(job.inputs) > 1 else ""
    clock = "" if job.every is None else ", or by the clock with idle"
    return (
        f"the watermark is {_told(min(marks))}; later results are open, and the next of them come "
        f"out when it reaches {_told(next_at)}: with an event of {_told(next_at + lateness)} or "
        f"later {where}".rstrip()
        + clock
        + odd
    )


def _next(job: Job, spark: SparkSession, watermark: int) -> int | None:
    """Return the instant at which the watermark lets the next results out, at the earliest."""
    transform = job.transform
    if transform is None:
        return None
    if isinstance(transform, Windowed):
        transform = replace(transform, where=None)
    try:
        late = transform.late_at(F.timestamp_micros(F.lit(watermark)))
        row = None if late is None else spark.range(1).select(F.unix_micros(late)).head()
    except AnalysisException:
        # A function of one's own may ask for columns of the row.
        return None
    return None if row is None or row[0] is None else int(row[0])


def _told(micros: int) -> str:
    at = _EPOCH + timedelta(microseconds=micros)
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
