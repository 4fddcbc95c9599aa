"""Replication of a Delta table's changes into a sink, version by version."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from ..columns import require_column_names, require_instance, require_integer
from ..commit.batch import UNIX_EPOCH, BatchPlan, BatchStats, CommitContext, app_id
from ..commit.delta_commit import read_table_log
from ..commit.ownership import writer_queries
from ..commit.table_log import TableLog
from ..delta.catalog import resolve_table_path
from ..errors import ColumnTypeError, TableMismatchError
from ..input_frames import ROWS
from ..job.validation import require_writer_name
from ..jvm import local_folders
from ..sinks import Sink
from ..sources import DeltaChangeFeed
from ..sources.delta_change_feed import translate_errors
from ..spark.job_session import in_job_session
from ..spark.spark_errors import explain_disk_errors

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FollowResult:
    """The result of a run of `follow`.

    Attributes:
        version: the version of the table up to which the sink contains all changes.
        batches: the number of versions written.
        changes: the number of changes in these versions.
    """

    version: int
    batches: int
    changes: int


@in_job_session
def follow(
    change_feed: DeltaChangeFeed,
    sink: Sink,
    spark: SparkSession,
    *,
    job: str,
    starting_version: int = 0,
) -> FollowResult:
    """Write all changes of a Delta table, up to its newest version, to a sink, each exactly once.

    The first batch contains all rows of version `starting_version` with op = snapshot; each later
    batch contains the changes of one version. The batch number is the version, so that Delta's log
    determines the content of each batch, an interrupted run resumes from the sink's tables, and no
    checkpoint is needed. Versions without changes are skipped. Run it again for later versions; two
    concurrent runs write each version once.

    The sink receives changes as in a job without a transform: `CurrentTable`, `HistoryTable`,
    `Append` for a changelog table, `KafkaSink` below `MapRows(rows=to_upsert_records)` for a topic,
    or several in a `FanOut`. A sink added to a `FanOut` later starts with `starting_version` too,
    while the others wait.

    Cost: one or two Spark jobs for each version and sink, and one scan of the table's keys for each
    run that finds new versions.

    Args:
        change_feed: the table, by its path or its name in a catalog, and its key.
        sink: the sink; its tables have no other writer and no other source.
        spark: the session.
        job: the writer's name in the sink's tables. Do not change it.
        starting_version: the first version of the first run: the version that enabled the change
            data feed, or a later one. 0 for a table created with it.

    Raises:
        ArgumentError, ColumnTypeError: at the call. And what `DeltaChangeFeed` raises.
        ColumnError: for a key that is null or not unique; nothing is written from that version on.
        SourceError: for deleted versions; nothing is written.
        TableMismatchError: for a sink's table with another source, or ahead of the table.
        SetupError: for a full or read-only disk.
        TidegateError: as the sink raises.

    >>> from tempfile import mkdtemp
    >>> from tidegate.sinks import Append
    >>> users = f"{mkdtemp()}/users"
    >>> table = spark.range(3).write.format("delta").option("delta.enableChangeDataFeed", "true")
    >>> table.save(users)
    >>> follow(DeltaChangeFeed(users, key="id"), Append(f"{users}.changes"), spark, job="copy")
    FollowResult(version=0, batches=1, changes=3)
    """
    hint = 'DeltaChangeFeed("/data/t", key="id")'
    require_instance(change_feed, "change_feed", DeltaChangeFeed, hint)
    if not isinstance(sink, Sink):
        raise ColumnTypeError(f"invalid sink: {sink!r}", "a sink", 'Append("/data/t.changes")')
    require_writer_name(job)
    change_feed = replace(change_feed, path=resolve_table_path(spark, change_feed.path))
    newest = change_feed.table_state(spark).version
    hint = f"{change_feed.path} is at version {newest}"
    require_integer(starting_version, "starting_version", 0, newest, hint)
    plan = _ChangeFeedPlan(change_feed, read_table_log(spark, change_feed.path), job)
    last_version = _last_written_version(spark, sink, plan)
    if last_version is not None and last_version >= newest:
        return FollowResult(version=newest, batches=0, changes=0)
    resume_version = starting_version if last_version is None else last_version
    change_feed.require_readable(spark, resume_version, newest)
    batches = changes = 0
    first_version = resume_version + (last_version is not None)
    with explain_disk_errors([*(path for path, _ in sink.tables()), *local_folders(spark)]):
        for version in range(first_version, newest + 1):
            if last_version is None and version == starting_version:
                rows = change_feed.snapshot_at(spark, version)
            else:
                rows = change_feed.read_net_changes(spark, version - 1, version)
            change_count = _write_version(rows, sink, plan, version, write_empty=version == newest)
            if change_count is not None:
                batches += 1
                changes += change_count
    return FollowResult(version=newest, batches=batches, changes=changes)


@dataclass(frozen=True)
class _ChangeFeedPlan:
    """The plan of the batches: one for each version of the table."""

    change_feed: DeltaChangeFeed
    table_log: TableLog
    job: str

    @property
    def source_id(self) -> str:
        """The id of the table, which replaces the query id of other jobs."""
        return str(self.table_log.id)

    def version_batch(self, version: int, change_count: int) -> CommitContext:
        plan = BatchPlan(
            job=self.job,
            query_id=self.source_id,
            run_id=self.source_id,
            number=version,
            offsets_hash=self.version_hash(version),
            start={self.source_id: {0: version}},
            end={self.source_id: {0: version + 1}},
            watermark=UNIX_EPOCH,
        )
        return CommitContext(plan=plan, stats=BatchStats(number=version, rows_in=change_count))

    def require_same_source(self) -> None:
        """Raise TableMismatchError if another table has replaced the source."""
        current_log = read_table_log(self.table_log.spark, self.table_log.path)
        if current_log.id != self.source_id:
            raise TableMismatchError(
                f"the source {self.table_log.path} was replaced while it was read",
                f"its table id was {self.source_id}, and is {current_log.id}",
                "write the new table to a new target",
            )

    def version_hash(self, version: int) -> str:
        """Return a hash of a version's commit and of the options of the feed."""
        feed = self.change_feed
        feed_options = [require_column_names(feed.key, "key"), list(feed.columns or ()), feed.where]
        commit_hash = self.table_log.commit_hash(version)
        hashed_values = [self.source_id, version, commit_hash, *feed_options]
        return hashlib.sha256(json.dumps(hashed_values).encode()).hexdigest()


def _write_version(
    rows: DataFrame, sink: Sink, plan: _ChangeFeedPlan, version: int, *, write_empty: bool
) -> int | None:
    """Write the changes of a version; return their number, or None if nothing was written."""
    persisted_rows = rows.persist()
    try:
        with translate_errors(plan.change_feed.path):
            change_count = persisted_rows.count()
        plan.require_same_source()
        if not change_count and not write_empty:
            return None
        batch = plan.version_batch(version, change_count)
        sink.write({ROWS: persisted_rows}, batch, rows_out=change_count)
        _LOG.info("%s: version %d, %d changes", plan.job, version, change_count)
        return change_count
    finally:
        persisted_rows.unpersist()


def _last_written_version(spark: SparkSession, sink: Sink, plan: _ChangeFeedPlan) -> int | None:
    """Return the last version that all tables of the sink contain; None if one has none."""
    last_versions: list[int | None] = []
    for path, output in sink.tables():
        table_log = read_table_log(spark, path)
        last_version = None
        if table_log.version >= 0:
            last_version = table_log.last_batch(app_id(plan.job, plan.source_id, output))
            _require_own_table(table_log, output, last_version, plan)
        last_versions.append(last_version)
    written = [version for version in last_versions if version is not None]
    return min(written) if len(written) == len(last_versions) else None


def _require_own_table(
    table_log: TableLog, output: str, last_version: int | None, plan: _ChangeFeedPlan
) -> None:
    """Require that a table contains only changes of this source, in its current history."""
    other_sources = writer_queries(output, plan.job, table_log.writer_app_ids()) - {plan.source_id}
    if other_sources:
        raise TableMismatchError(
            f"{table_log.path} contains the changes of another table",
            f"it was written from the table {min(other_sources)}, and the source is "
            f"{plan.source_id}: the source was re-created, or is another table",
            "write to a new target",
        )
    if last_version is None:
        return
    stamp = table_log.find_stamp(app_id(plan.job, plan.source_id, output), last_version)
    # Delta deletes old commits of a log; they can no longer be compared.
    is_in_source_log = plan.table_log.commit_hash(last_version) is not None
    is_other_version = (
        is_in_source_log
        and stamp is not None
        and stamp.offsets_hash != plan.version_hash(last_version)
    )
    if plan.table_log.version < last_version or is_other_version:
        raise TableMismatchError(
            f"{table_log.path} contains another version {last_version} of {plan.change_feed.path}",
            f"the source is at version {plan.table_log.version}: it was restored, or its key, "
            "columns or where have changed",
            "restore the newest copy of the source, or write to a new target",
        )
