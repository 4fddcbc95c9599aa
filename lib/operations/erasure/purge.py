"""Purge: reduce a table to the files and log entries of its newest version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from ...columns import quote_name
from ...commit.batch import is_late_replay
from ...commit.delta_commit import read_table_log
from ...delta.commit_options import CommitOptions
from ...errors import CheckpointError
from ...jvm import (
    DeltaState,
    checkpoint_table,
    delta_state,
    refuse_missing_files,
    touch_transaction,
    with_settings,
)
from ..late_replay import REMOVED_VERSIONS_PROPERTY, merged_late_version, rows_added_between
from .inventory import DELTA_LOG, Root

_RETENTION_PROPERTY = "delta.deletedFileRetentionDuration"
_SAVED_RETENTION_PROPERTY = "tidegate.erasure.retention"
"""The retention property before the purge, or empty; set while the table is purged."""
_MERGED_PROPERTY = "tidegate.erasure.merged_version"
"""For a late table, the version up to which its rows were merged; set while it is purged."""
_ZERO_RETENTION = "interval 0 seconds"
_SIDECARS = "_sidecars"
_VERSIONED_FILE = re.compile(r"\.?(\d{20})\.(.*)")
_VACUUM_SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # The number of tasks in which Delta lists the files; its default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


def is_purge_unfinished(state: DeltaState) -> bool:
    """Return whether a purge of the table was started and not finished."""
    return state.property(_SAVED_RETENTION_PROPERTY) is not None


def purge_table(
    spark: SparkSession,
    root: Root,
    name: str,
    check_lease: Callable[[], None],
    merged_version: int | None = None,
) -> None:
    """Delete every file and log entry that the newest version of a table does not need.

    Rewrites the files with deletion vectors, vacuums the files that the newest version does not
    reference, change data included, and restarts the log at a checkpoint. Earlier versions of the
    table are lost. A commit without rows copies the newest stamp of each output, so that its job
    resumes as before. After a kill, call it again.

    check_lease: called before each step; raises if the table is in use. merged_version: the version
    up to which the rows of a late table were merged.
    """
    path = root.absolute(name)
    check_lease()
    _start_purge(spark, path, merged_version)
    # With the retention at zero, files removed by earlier deletes are vacuumed too.
    if delta_state(spark, path).has_deletion_vectors():
        with refuse_missing_files(spark):
            spark.sql(f"REORG TABLE {_sql_name(path)} APPLY (PURGE)")
    check_lease()
    with with_settings(spark, _VACUUM_SETTINGS):
        DeltaTable.forPath(spark, path).vacuum(0)
    root.delete_empty_folders(name)
    check_lease()
    oldest_version = delta_state(spark, path).version + 1
    _rewrite_stamps(spark, path)
    # Sidecars have no version in their names: all existing ones belong to earlier checkpoints.
    sidecars = root.files_in(f"{name}/{DELTA_LOG}/{_SIDECARS}".lstrip("/"))
    checkpoint_version = checkpoint_table(spark, path)
    _finish_purge(spark, path, checkpoint_version)
    check_lease()
    for file in root.files_in(f"{name}/{DELTA_LOG}".lstrip("/")):
        if _is_obsolete(file.rpartition("/")[2], oldest_version, checkpoint_version):
            root.delete(file)
    for file in sidecars:
        root.delete(file)


def _is_obsolete(file: str, oldest_version: int, checkpoint_version: int) -> bool:
    match = _VERSIONED_FILE.fullmatch(file)
    if match is None:
        return False
    is_checkpoint = match[2].startswith("checkpoint")
    return int(match[1]) < (checkpoint_version if is_checkpoint else oldest_version)


def _start_purge(spark: SparkSession, path: str, merged_version: int | None) -> None:
    """Set the retention to zero, so that checkpoints omit the names of removed files."""
    state = delta_state(spark, path)
    if is_purge_unfinished(state):
        return
    properties = {
        _SAVED_RETENTION_PROPERTY: state.property(_RETENTION_PROPERTY) or "",
        _RETENTION_PROPERTY: _ZERO_RETENTION,
    }
    if merged_version is not None:
        properties[_MERGED_PROPERTY] = str(merged_version)
    _set_properties(spark, path, properties)


def _finish_purge(spark: SparkSession, path: str, version: int) -> None:
    """Restore the properties; `version` has the rows of all removed versions."""
    state = delta_state(spark, path)
    retention = state.property(_SAVED_RETENTION_PROPERTY)
    merged_version = state.property(_MERGED_PROPERTY)
    properties = {}
    obsolete = [_SAVED_RETENTION_PROPERTY]
    if retention:
        properties[_RETENTION_PROPERTY] = retention
    else:
        obsolete.append(_RETENTION_PROPERTY)
    if merged_version is not None:
        properties[REMOVED_VERSIONS_PROPERTY] = f"{merged_version} {version}"
        obsolete.append(_MERGED_PROPERTY)
    if properties:
        _set_properties(spark, path, properties)
    _alter_table(spark, path, f"UNSET TBLPROPERTIES ({', '.join(map(repr, obsolete))})")


def _set_properties(spark: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    pairs = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    _alter_table(spark, path, f"SET TBLPROPERTIES ({pairs})")


def _alter_table(spark: SparkSession, path: str, clause: str) -> None:
    spark.sql(f"ALTER TABLE {_sql_name(path)} {clause}")


def _sql_name(path: str) -> str:
    return f"delta.{quote_name(path)}"


def _rewrite_stamps(spark: SparkSession, path: str) -> None:
    """Commit the newest stamp of each output again, in their order."""
    log = read_table_log(spark, path)
    transactions = delta_state(spark, path).txn_versions()
    for app_id, number in sorted(transactions.items(), key=lambda each: each[1]):
        stamp = log.find_stamp(app_id, number)
        if stamp is not None:
            with CommitOptions.commit_metadata(spark, stamp.to_json()):
                touch_transaction(spark, path, app_id, number)


def query_id_of(app_id: str) -> str:
    """Return the query id in an application id, which is job/query/output."""
    return app_id.rpartition("/")[0].rpartition("/")[2]


def merged_late_rows_version(spark: SparkSession, path: str, tables: Iterable[str]) -> int | None:
    """Return the version up to which the rows of a late table were merged; None for other tables.

    tables: the tables that late replays may have written. Without a late replay, it is the current
    version.

    Raises:
        CheckpointError: for late rows that are not merged yet.
    """
    log = read_table_log(spark, path)
    jobs = {
        _job_name(each)
        for each in log.writer_app_ids()
        if each.rpartition("/")[2].startswith("late")
    }
    if not jobs:
        return None
    late_table = delta_state(spark, path)
    merged_versions = [
        version
        for target in (read_table_log(spark, table) for table in tables)
        for job, output in {
            (_job_name(app_id), app_id.rpartition("/")[2])
            for app_id in target.writer_app_ids()
            if is_late_replay(query_id_of(app_id)) and _job_name(app_id) in jobs
        }
        if (version := merged_late_version(target, job, output, late_table)) is not None
    ]
    if not merged_versions:
        return log.version
    if rows_added_between(spark, path, min(merged_versions), log.version).isEmpty():
        return min(merged_versions)
    raise CheckpointError(
        f"cannot purge {path}",
        "it has late rows that are not merged yet, and its earlier versions determine them",
        "run the job with --replay-late, then run this again",
    )


def _job_name(app_id: str) -> str:
    return app_id.rpartition("/")[0].rpartition("/")[0]
