"""Late replay: merge stored late rows into their windows, once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage_files import LineageFiles
from ..commit.batch import (
    LATE_REPLAY_QUERY,
    UNIX_EPOCH,
    BatchPlan,
    CommitContext,
    app_id,
    late_replay_query,
)
from ..commit.delta_commit import read_table_log
from ..commit.driver_lease import DriverLease
from ..commit.table_log import TableLog
from ..delta.delta_table import read_table_version
from ..errors import ConfigError
from ..job.dataflow import partial_windows
from ..job.job import Job, require_job
from ..jvm import DeltaState, delta_state
from ..sinks.windows.alarms import corrected_windows_in
from ..spark.job_session import in_job_session
from ..spark.spark_errors import explain_disk_errors
from ..startup.environment import table_paths, written_paths
from ..startup.swap_journal import require_no_swap

POSITION_COLUMNS = ["topic", "partition", "offset"]
REMOVED_VERSIONS_PROPERTY = "tidegate.erasure.removed_versions"
"""A property of a table whose earlier versions were removed: "4 9" means that version 9 contains
the rows that were merged up to version 4 or later."""


@in_job_session
def merge_late_rows(job: Job, spark: SparkSession) -> int:
    """Merge the pending late rows of a job into its windows; return the number of merged rows.

    The replay claims the checkpoint of the job, so that a driver that still runs is fenced off.
    Each row is merged exactly once, after any number of crashes: a replay is a batch of a query of
    the late table, by its id, and is numbered by the version of the table.

    Raises:
        ConfigError: for a job without allowed lateness or without a late table.
        CheckpointError: for a job whose tables are being swapped.
        SetupError: for a full or read-only disk.
        TidegateError: as its sink raises.

    >>> merge_late_rows(job, spark)                                            # doctest: +SKIP
    7
    """
    require_job(job)
    require_no_swap(job)
    if corrected_windows_in(job.sink) is None:
        raise ConfigError(
            f"cannot merge late rows of {job.name!r}: its sink stores no correctable windows",
            "a job with allowed_lateness or emit='changes', whose sink is CorrectedWindows",
            "--set window.allowed_lateness='1 hour', from the first run of the job",
        )
    sink, windows = job.sink, partial_windows(job)
    (path,) = (table.path for table in job.locations.late_rows.values())
    if delta_state(spark, path).version < 0:
        return 0
    with explain_disk_errors(written_paths(job, spark)):
        lease = _claim_checkpoint(job, spark)
        late_table = delta_state(spark, path)
        version = late_table.version
        merged_version, logged_version = (
            merged_late_version(read_table_log(spark, target), job.name, output, late_table)
            for target, output in ((sink.path, sink.output), sink.tables()[0])
        )
        merged_count = 0
        # A replay that crashed between its tables is finished first, with the same rows.
        first_version = version if logged_version is None else logged_version
        for target_version in sorted({first_version, version}):
            if merged_version is None or target_version > merged_version:
                rows = rows_added_between(spark, path, merged_version, target_version)
                merged_count += _merge(job, windows, rows, late_table, target_version, lease)
                merged_version = target_version
        if lease is not None:
            lease.release()
    return merged_count


def merged_late_version(
    target: TableLog, job: str, output: str, late_table: DeltaState
) -> int | None:
    """Return the version of the late table up to which its rows were merged; None without a merge.

    Earlier versions of tidegate had one query for all late tables of a job. Such a merge counts
    unless the late table was created after it.
    """
    merged_version = target.last_batch(
        app_id(job, late_replay_query(late_table.table_id()), output)
    )
    if merged_version is not None:
        return merged_version
    shared_id = app_id(job, LATE_REPLAY_QUERY, output)
    merged_at, created_at = target.txn_time(shared_id), late_table.created_at()
    if merged_at is None or created_at is None or merged_at < created_at:
        return None
    return target.last_batch(shared_id)


def _claim_checkpoint(job: Job, spark: SparkSession) -> DriverLease | None:
    """Claim the checkpoint and fence its driver off; None for a checkpoint without lineage."""
    lineage_files = LineageFiles(spark, job.locations.checkpoint)
    lineage = lineage_files.read()
    if lineage is None:
        return None
    lease = DriverLease.acquire(lineage_files, lineage, {})
    if not lineage.released and lineage.query is not None:
        logs = {output: read_table_log(spark, path) for output, path in table_paths(job).items()}
        lease.fence(logs, lineage.commit_query_id(lineage.query))
    return lease


def _merge(
    job: Job,
    windows: Callable[[DataFrame], DataFrame],
    late_rows: DataFrame,
    late_table: DeltaState,
    version: int,
    lease: DriverLease | None,
) -> int:
    rows = late_rows.persist()
    try:
        totals = rows.agg(F.count(F.lit(1)), F.unix_micros(F.max("watermark"))).head()
        count, max_watermark = totals or (0, None)
        watermark = UNIX_EPOCH + timedelta(microseconds=max_watermark or 0)
        plan = _merge_plan(job, late_table, version, watermark, str(count))
        job.sink.write({"rows": windows(rows)}, CommitContext(plan=plan, lease=lease))
        return int(count)
    finally:
        rows.unpersist()


def rows_added_between(
    spark: SparkSession, path: str, from_version: int | None, to_version: int
) -> DataFrame:
    """Return the rows that were appended to a table between two of its versions."""
    current_rows = read_table_version(spark, path, to_version)
    if from_version is None:
        return current_rows
    earlier_rows = read_table_version(spark, path, _readable_version(spark, path, from_version))
    return current_rows.join(earlier_rows.select(POSITION_COLUMNS), POSITION_COLUMNS, "left_anti")


def _readable_version(spark: SparkSession, path: str, version: int) -> int:
    """Return the version that contains the rows of another one, which was removed by an erasure."""
    property_value = delta_state(spark, path).property(REMOVED_VERSIONS_PROPERTY)
    if property_value is None:
        return version
    merged_version, rewritten_version = map(int, property_value.split())
    return rewritten_version if merged_version <= version < rewritten_version else version


def _merge_plan(
    job: Job, late_table: DeltaState, number: int, watermark: datetime, plan_text: str
) -> BatchPlan:
    return BatchPlan(
        job=job.name,
        query_id=late_replay_query(late_table.table_id()),
        run_id=LATE_REPLAY_QUERY,
        number=number,
        offsets_hash=hashlib.sha256(f"{number} {plan_text}".encode()).hexdigest(),
        start={},
        end={},
        watermark=watermark,
        late_watermark=watermark,
    )
