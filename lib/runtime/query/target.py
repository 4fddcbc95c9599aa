"""The target's rows of a batch, counted before they are committed.

Rows are kept until they are counted, and then written, where state or a sink that reads them
several times stands behind them. Rows that go from the topic to the table as they are read are
counted as they are written, and kept nowhere: the commit waits until the batch was checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from ...commit import Batch
from ...commit.outcome import Outcome
from ...commit.pending import pending
from ...jvm import LOST_ROWS, conditions
from ..job import Job
from .frames import handed_on
from .side_outputs import Late

_LOG = logging.getLogger(__name__)
_LOSSES = 3
"""How often a batch is written anew."""


@dataclass(frozen=True)
class Target:
    """A batch's rows, and what commits them.

    rows_out: how many rows the query gave; None where no more is known than that each good row gave
        one.
    write: commits them as the batch is known by then, with the late rows that correct something;
        returns what became of it.
    """

    rows_out: int | None
    write: Callable[[Batch, Sequence[Late]], str]


@contextmanager
def counted_rows(
    job: Job, frame: DataFrame, batch: Batch, *, kept: bool, whole: DataFrame | None = None
) -> Iterator[Target]:
    """Read a batch's rows and count them; nothing is committed before the block says so.

    kept: whether rows are kept until they are counted, and not written as they are computed.
    whole: what is kept then, where the rows are only a part of it.
    """
    if not kept:
        write = partial(_as_read, job, frame)
        with pending(write, batch, frame.sparkSession) as (under_way, commit):
            rows = under_way.rows()
            if rows is not None:
                known = rows if job.sink_hands_on else None
                yield Target(known, partial(_as_counted, job, rows, commit))
                return
    # Of a batch that the table has already the rows are counted all the same.
    source = (frame if whole is None else whole).persist()
    try:
        rows = frame.count()
        yield Target(rows, partial(_from_kept, job, frame, rows))
    finally:
        source.unpersist()


def _as_read(job: Job, frame: DataFrame, batch: Batch) -> Outcome:
    with handed_on(job, frame, []) as frames:
        return job.sink.write(frames, batch)


def _as_counted(
    job: Job, rows: int, commit: Callable[[Batch], str], batch: Batch, _: Sequence[Late]
) -> str:
    return "empty" if _needs_no_commit(job, rows, batch) else commit(batch)


def _needs_no_commit(job: Job, rows: int, batch: Batch) -> bool:
    """Return whether a batch without rows is none of the table's.

    The first one makes the table, and shows at once whether it is ours. Windows that the table has
    may become final without a new row.
    """
    return not rows and batch.number > 0 and not job.merges


def _from_kept(job: Job, frame: DataFrame, rows: int, batch: Batch, late: Sequence[Late]) -> str:
    if _needs_no_commit(job, rows, batch):
        return "empty"
    made = job.emission == "updates" or job.each_batch is not None
    with handed_on(job, frame, late) as frames:
        out = None if made else rows
        return _in_spite_of_losses(lambda: job.sink.write(frames, batch, rows_out=out), batch)


def _in_spite_of_losses(write: Callable[[], Outcome], batch: Batch) -> Outcome:
    """Write once more where an executor was lost with rows that the sink had kept there alone.

    What was committed by then is skipped.
    """
    for _ in range(_LOSSES):
        try:
            return write()
        except Exception as error:
            if LOST_ROWS not in conditions(error):
                raise
            _LOG.warning(
                "batch %s: rows were lost with an executor; it is written anew", batch.number
            )
    return write()
