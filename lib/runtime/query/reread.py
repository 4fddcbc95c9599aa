"""From where on the stream after a backlog reads again what its results need."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...commit.origins import Backlog
from ...offsets import Offsets
from ..job import Job
from . import cut
from .unread import gap, reach

_LOG = logging.getLogger(__name__)
_LONG_SESSION = 8
"""How many gaps before the cut a session that is open there is taken to have begun, at first."""


def since(job: Job, backlog: Backlog) -> int | None:
    """Return from which event time on rows are read again; None for no time at all.

    Of sessions it is a guess: which of them are open is known when the batch has made them.
    """
    if backlog.until is None:
        return None
    return backlog.until - (_LONG_SESSION * gap(job) or reach(job))


def again(
    job: Job, spark: SparkSession, backlog: Backlog, at: int, start: Offsets
) -> tuple[Offsets, dict[str, int]]:
    """Return the offsets from which on rows have such event times, and by input how many do.

    start: the offsets before which none of them is.
    """
    found: Offsets = {}
    young = {}
    for name, given in job.inputs.items():
        end = cut.own(given.reading, backlog.end)
        first = {topic: start[topic] for topic in end}
        offsets, young[name] = cut.offsets_since(spark, given.reading, first, end, at)
        found |= offsets
    return found, young


def of_sessions(
    job: Job, spark: SparkSession, backlog: Backlog, waiting: DataFrame, guess: int | None
) -> Offsets | None:
    """Return the offsets from which on rows are of a session that is open; None where of all.

    waiting: the sessions that are not the batch's.
    guess: from which event time on all rows are known to be at `again` or after it.
    """
    start = F.unix_micros(F.col("window")["start"])
    oldest = waiting.agg(F.min(start)).head()
    at = min([backlog.until or 0, *[begun for begun in oldest or [] if begun is not None]])
    if at <= 0:
        _LOG.warning("%s: a session is open since 1970; all is read as a stream", job.name)
        return None
    known = guess is not None and guess <= at
    first = backlog.again if known else backlog.start
    found, _ = again(job, spark, backlog, at, first)
    for given in job.inputs.values():
        earlier = given.reading.rows(spark, first, cut.own(given.reading, found))
        if not earlier.where(cut.strays(at)).isEmpty():
            return first
    return found
