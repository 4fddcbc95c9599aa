"""From where on the stream after a backlog reads again what its results need.

Those are in each partition the rows from the first one on that is at an instant or after it, or
from somewhat before it. No row before that one is newer, so that what is late by the log among them
follows from the rows that are read again alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...commit.origins import Backlog
from ...offsets import Offsets
from ...sources.reached import first_at
from ..job import Job
from . import cut
from .unread import gap, reach_of

_LOG = logging.getLogger(__name__)
_LONG_SESSION = 8
"""How many gaps before the cut a session that is open there is taken to have begun, at first."""


def since(job: Job, until: int, name: str) -> int:
    """Return from which time on an input is read again, where results before `until` are out.

    Of sessions it is a guess: which of them are open is known when the batch has made them.
    """
    return until - (_LONG_SESSION * gap(job) or reach_of(job, name))


def of_sessions(
    job: Job, spark: SparkSession, backlog: Backlog, waiting: DataFrame, guess: int
) -> Offsets | None:
    """Return the offsets from which on rows are of a session that is open; None where of all.

    backlog: reads again from the guess on. waiting: the sessions that are not the batch's.
    """
    start = F.unix_micros(F.col("window")["start"])
    oldest = waiting.agg(F.min(start)).head()
    at = min([backlog.until or 0, *[begun for begun in oldest or [] if begun is not None]])
    if at <= 0:
        _LOG.warning("%s: a session is open since 1970; all is read as a stream", job.name)
        return None
    if guess <= at:
        return backlog.again
    found: Offsets = {}
    for given in job.inputs.values():
        # What is at the guess or after it is beyond what is looked at.
        again = cut.own(given.reading, backlog.again)
        rows = given.reading.timed(spark, backlog.start, again)
        first = first_at(rows, given.reading.place, at)
        found |= {topic: {**parts, **first.get(topic, {})} for topic, parts in again.items()}
    return found


def united(found: Iterable[dict[str, dict[int, int]]]) -> dict[str, dict[int, int]]:
    """Return the numbers of all inputs, of which no two have one topic."""
    return {topic: parts for each in found for topic, parts in each.items()}
