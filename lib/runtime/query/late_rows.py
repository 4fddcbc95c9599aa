"""Late rows that were kept, merged into the windows that they belong to, once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...commit import Batch
from ...commit.batch import EPOCH
from ...commit.epochs import EpochFiles
from ...commit.ledger import Ledger
from ...commit.once import last_batch, untouched
from ...commit.table import at_version
from ...errors import ConfigError
from ...jvm import delta_state
from ...sinks import Sink
from ...sinks.alarms import windows_of
from ..job import Job
from ..replaying.journal import require_no_switch
from .frames import partials
from .places import steps

Windows: TypeAlias = Callable[[DataFrame], DataFrame]
PLACE = ["topic", "partition", "offset"]
SINCE = "tidegate.since"
"""A property of a table whose earlier versions were removed: "4 9" says that what was merged up to
version 4, or a later one, is what version 9 has."""


def replay_late(job: Job, spark: SparkSession) -> int:
    """Merge the late rows that came since the last replay into a job's windows; return how many.

    The job must not run meanwhile: the replay claims its checkpoint, and a driver of the job that
    still runs writes no more. Each row is merged once, after any number of crashes: a replay is a
    batch of the query "replay", numbered by the late table's version, and its windows are corrected
    as by a late row in time.

    Raises ConfigError for a job without corrections or without a late table, CheckpointError for
    one whose tables are being switched; and what its sink raises.
    """
    require_no_switch(job)
    sink, windows, path = _kept(job)
    if delta_state(spark, path).version < 0:
        return 0
    claim = _claimed(job, spark)
    version = delta_state(spark, path).version
    log, log_step = sink.tables()[0]
    asked = _batch(job, 0, EPOCH, "")
    done, noted = (
        last_batch(spark, *place)
        for place in ((sink.path, asked, sink.step), (log, asked, log_step))
    )
    merged = 0
    # A replay that crashed between its tables is finished first, with the rows that it had.
    for until in sorted({version if noted is None else noted, version}):
        if done is None or until > done:
            rows = gained(spark, path, done, until)
            merged += _merge(job, sink, windows, rows, until, claim)
            done = until
    if claim is not None:
        claim.ended()
    return merged


def _claimed(job: Job, spark: SparkSession) -> Ledger | None:
    """Claim the job's checkpoint, and fence its driver off; None where there is no identity."""
    files = EpochFiles(spark, job.places.checkpoint)
    noted = files.read()
    if noted is None:
        return None
    ledger = Ledger.claimed(files, noted, {})
    if not noted.ended and noted.query is not None:
        query = noted.written_as(noted.query)
        ledger.fence({step: untouched(spark, at) for step, at in steps(job).items()}, query)
    return ledger


def _merge(
    job: Job,
    sink: Sink,
    windows: Windows,
    late: DataFrame,
    number: int,
    claim: Ledger | None,
) -> int:
    rows = late.persist()
    try:
        count, newest = rows.agg(F.count(F.lit(1)), F.unix_micros(F.max("watermark"))).head() or (
            0,
            None,
        )
        watermark = EPOCH + timedelta(microseconds=newest or 0)
        batch = replace(_batch(job, number, watermark, str(count)), claim=claim)
        sink.write({"rows": windows(rows)}, batch)
        return int(count)
    finally:
        rows.unpersist()


def gained(spark: SparkSession, path: str, done: int | None, until: int) -> DataFrame:
    """Return the rows that an append-only table has gained between two of its versions."""
    now = at_version(spark, path, until)
    if done is None:
        return now
    before = at_version(spark, path, _readable(spark, path, done))
    return now.join(before.select(PLACE), PLACE, "left_anti")


def _readable(spark: SparkSession, path: str, done: int) -> int:
    """Return the version that has the rows of another, where that one was removed on purpose."""
    told = delta_state(spark, path).property(SINCE)
    if told is None:
        return done
    merged, since = map(int, told.split())
    return since if merged <= done < since else done


def _batch(job: Job, number: int, watermark: datetime, plan: str) -> Batch:
    return Batch(
        job=job.name,
        query_id="replay",
        run_id="replay",
        number=number,
        offsets_hash=hashlib.sha256(f"{number} {plan}".encode()).hexdigest(),
        start={},
        end={},
        watermark=watermark,
        late_watermark=watermark,
    )


def _kept(job: Job) -> tuple[Sink, Windows, str]:
    """Return the sink that keeps the job's windows, what makes them, and the late table's path."""
    if windows_of(job.sink) is None:
        raise ConfigError(
            f"{job.name} keeps no windows to be merged with late rows.",
            "a job whose sink is Corrected: with corrections, or with emission 'updates'.",
            "--set window.corrections='1 hour', from the job's first run on.",
        )
    (late,) = job.places.late.values()
    return job.sink, partials(job), late.path
