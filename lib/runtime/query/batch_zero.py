"""The batch before the stream, which is batch 0 of the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pyspark.sql import SparkSession

from ...commit import EPOCH, Batch, Stamp
from ...commit.ledger import Ledger
from ...commit.once import untouched
from ...commit.origins import Backlog
from ...commit.protocol import current
from ..job import Job
from .places import steps

_MICRO = timedelta(microseconds=1)


def is_done(job: Job, spark: SparkSession, ledger: Ledger, backlog: Backlog) -> bool:
    """Return whether the target has the batch, which it gets last, and note its tables then."""
    batch = batch_of(job, ledger, backlog)
    latest = None
    if untouched(spark, job.sink.path).done(Stamp.of(batch, job.sink.step, {}).app_id) is None:
        return False
    for step, path in steps(job).items():
        log = untouched(spark, path)
        stamp = Stamp.of(batch, step, {})
        current(log, stamp)
        found = log.stamp(stamp.app_id, 0)
        if found is not None:
            ledger.note(log, stamp)
            latest = found.latest
    ledger.worked_off(latest)
    return True


def batch_of(job: Job, ledger: Ledger, backlog: Backlog) -> Batch:
    """Return the batch, without its counts."""
    return Batch(
        job=job.name,
        query_id=backlog.query,
        run_id=str(uuid4()),
        number=0,
        offsets_hash=backlog.digest,
        start=backlog.start,
        end=backlog.end,
        watermark=EPOCH + (backlog.until or 0) * _MICRO,
        # No row of it is late by a watermark, however long ago it was.
        late_watermark=datetime.min.replace(tzinfo=UTC),
        late=0,
        epoch=ledger.identity.epoch,
        plan=ledger.plan,
        claim=ledger,
    )
