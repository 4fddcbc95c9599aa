"""What a start claims of its checkpoint, and how the job goes on from there."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from ...commit.identity import NEVER
from ...commit.ledger import Ledger
from ...jvm import names_in
from ...sinks.sink import remade
from ..job import Job
from .partitions import unlike
from .preflight import Preflight
from .resume import put_back, starting_at, told

_LOG = logging.getLogger(__name__)


def claimed(checks: Preflight) -> Ledger:
    """Check the job against its checkpoint and its tables, and claim the checkpoint."""
    identity = checks.require()
    name = checks.job.name
    for change in [*checks.replanned.told, *checks.gone, *unlike(checks.spark, checks.logs)]:
        _LOG.warning("%s: %s", name, change)
    for step in sorted((checks.noted or identity).tables.keys() - identity.tables.keys()):
        _LOG.warning("%s: the table of step %r begins anew, empty", name, step)
    if checks.begins and identity.resumed is not None:
        _LOG.warning("%s: the checkpoint was lost; the job %s", name, told(identity.resumed))
    # A table that its sink makes anew may be gone, so that nothing is noted of it.
    noted = {
        step: path for step, path in checks.steps.items() if step not in remade(checks.job.sink)
    }
    ledger = Ledger.claimed(checks.files, identity, noted)
    before = checks.noted
    if before is not None and not before.ended and checks.query is not None:
        ledger.fence(checks.tables, checks.query)
    return ledger


def going_on(job: Job, spark: SparkSession, ledger: Ledger) -> Job:
    """Return the job as it goes on after a lost checkpoint or a backlog; any other as it is.

    Until the first batch is planned, what a lost batch has left beside the target is put back.
    """
    resumed = ledger.identity.resumed
    backlog = ledger.identity.backlog
    if resumed is None and backlog is None:
        return job
    if names_in(spark, f"{job.places.checkpoint}/offsets"):
        return job
    if resumed is not None:
        put_back(job, spark, resumed)
        return starting_at(job, spark, resumed.start)
    return job if backlog is None else starting_at(job, spark, backlog.again)


def reads_again(spark: SparkSession, ledger: Ledger) -> bool:
    """Return whether the stream has yet to read again what its results need of a backlog."""
    identity = ledger.identity
    if identity.backlog is None or identity.backlog.until is None or identity.resumed is not None:
        return False
    return identity.batch == NEVER
