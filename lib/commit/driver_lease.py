"""The claim of a running driver on its checkpoint: checks before commits, records after batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from pyspark.sql import SparkSession

from ..checkpoint.lineage import (
    NO_BATCH,
    Backfill,
    CheckpointLineage,
    RecordedTable,
    hash_fingerprint,
)
from ..checkpoint.lineage_files import (
    LineageFiles,
    claim_next_epoch,
    require_newest_epoch,
    require_no_rescaling,
)
from ..checkpoint.spark_logs import (
    HadoopCheckpoint,
    hash_content,
    hash_static_files,
    read_static_files,
)
from ..errors import CheckpointError
from ..jvm import HadoopFolder, commit_file_name, read_bytes
from .batch import BatchPlan, BatchStats, CommitContext, Stamp, app_id, is_late_replay
from .delta_commit import read_table_log
from .ownership import (
    require_own_checkpoint,
    require_recorded,
    require_single_writer,
    require_unchanged,
)
from .table_log import TableLog


def require_same_streams(
    lineage: CheckpointLineage, stream_counts: Mapping[str, int], path: str
) -> None:
    """Refuse streams of inputs other than those of written batches.

    path: that of the lineage, for the error.

    Raises:
        CheckpointError: if written batches had another number.
    """
    differences = [
        f"{name} had {lineage.stream_counts[name]}, now {number}"
        for name, number in stream_counts.items()
        if lineage.stream_counts.get(name, number) != number
    ]
    if differences and lineage.last_batch > NO_BATCH:
        raise CheckpointError(
            f"{path} has another number of streams: {'; '.join(differences)}",
            "each stream of an input has its own watermark and state, so the number is fixed.",
            "restore the previous value of watermarks; or use a new checkpoint and new tables. "
            "Nothing was written.",
        )


class DriverLease:
    """The lineage of a checkpoint, maintained by the driver that has claimed the checkpoint.

    outputs: the path of each output's table in the current job; only these are recorded.
    """

    def __init__(
        self, lineage_files: LineageFiles, lineage: CheckpointLineage, outputs: Mapping[str, str]
    ) -> None:
        self.lineage_files = lineage_files
        self.lineage = lineage
        self.fingerprint_hash = hash_fingerprint(lineage.fingerprint)
        self.recorded_tables: dict[str, RecordedTable] = {}
        """Each table after this driver's last commit, by output, until the lineage has it."""
        self._outputs = outputs
        self._ownership_checked: set[str] = set()
        self._unfenced_outputs: set[str] = set()
        self._checked_versions: dict[str, int] = {}
        self._single_writer_until: dict[str, int] = {}
        self._log_folders: dict[str, HadoopFolder] = {}
        self._has_recorded_batch = False
        self._write_lock = Lock()

    @classmethod
    def acquire(
        cls, lineage_files: LineageFiles, lineage: CheckpointLineage, outputs: Mapping[str, str]
    ) -> DriverLease:
        """Claim the next epoch of the checkpoint, and write the lineage with it."""
        epoch = claim_next_epoch(lineage_files)
        # A rescale that has started since the checks has an older epoch.
        require_no_rescaling(lineage_files.read(), lineage_files.path)
        claimed_lineage = replace(lineage, epoch=epoch, released=False)
        lineage_files.write(claimed_lineage)
        lineage_files.delete_old_files(epoch)
        return cls(lineage_files, claimed_lineage, outputs)

    def record_streams(self, stream_counts: Mapping[str, int]) -> None:
        """Record the number of streams of each input, which a checkpoint depends on.

        Raises:
            CheckpointError: if written batches had another number.
        """
        require_same_streams(self.lineage, stream_counts, self.lineage_files.path)
        self.lineage = replace(self.lineage, stream_counts=dict(stream_counts))

    def record_backfill_plan(self, backfill: Backfill) -> None:
        """Record the offsets of a backfill before its first write."""
        self.require_newest_epoch()
        with self._write_lock:
            self._write_lineage(replace(self.lineage, backfill=backfill))

    def record_backfill_done(self, max_event_time: int | None) -> None:
        """Record that the backfill is in all of its tables."""
        self.require_newest_epoch()
        with self._write_lock:
            tables = {**self.lineage.tables, **self.recorded_tables}
            self._write_lineage(replace(self.lineage, tables=tables, max_event_time=max_event_time))
            self.recorded_tables = {}

    def commit_context(self, plan: BatchPlan, stats: BatchStats | None = None) -> CommitContext:
        """Return what the commits of a batch need."""
        return CommitContext(
            plan=plan,
            stats=stats,
            epoch=self.lineage.epoch,
            fingerprint_hash=self.fingerprint_hash,
            lease=self,
        )

    def on_batch_start(self, number: int) -> None:
        """Take over the batches that an earlier driver has finished since this one started.

        Raises:
            CheckpointError: for a batch that does not follow the last recorded one.
        """
        if number <= self.lineage.last_batch + 1:
            if not self.lineage.file_hashes and (file_hashes := self._static_file_hashes()):
                with self._write_lock:
                    self._write_lineage(replace(self.lineage, file_hashes=file_hashes))
            return
        newest_lineage = self.lineage_files.read() or self.lineage
        if number > newest_lineage.last_batch + 1:
            raise CheckpointError(
                f"{self.lineage_files.path} continues with batch {number}, but the last recorded "
                f"batch is {newest_lineage.last_batch}",
                "another driver has written to the checkpoint.",
                "start the job again. Nothing was written.",
            )
        self.lineage = newest_lineage.with_claim_of(self.lineage)

    def _static_file_hashes(self) -> dict[str, str]:
        files = self.lineage_files
        return hash_static_files(read_static_files(HadoopCheckpoint(files.spark, files.path)))

    def require_newest_epoch(self) -> None:
        """Refuse to continue after a later driver has claimed the checkpoint."""
        require_newest_epoch(self.lineage_files, self.lineage.epoch)

    def require_unchanged(self, log: TableLog, stamp: Stamp) -> None:
        """Refuse another table than the recorded one."""
        recorded = self._recorded_table(stamp.output)
        if recorded is not None:
            after_version = max(recorded.version, self._single_writer_until.get(stamp.output, 0))
            stamps = log.stamps_after(stamp.app_id, after_version)
            require_single_writer(log.path, stamps, batch=stamp.batch, run=stamp.run)
            self._single_writer_until[stamp.output] = log.version
            self._require_unchanged(stamp.output, recorded, log)
        elif (
            log.id is not None
            and stamp.output not in self._ownership_checked
            and not is_late_replay(stamp.query)
        ):
            require_own_checkpoint(stamp.output, stamp.job, stamp.query, log)
            self._ownership_checked.add(stamp.output)

    def _require_unchanged(self, output: str, recorded: RecordedTable, log: TableLog) -> None:
        # Commits of other writers are read once.
        checked_version = max(recorded.version, self._checked_versions.get(output, 0))
        restores = log.restores_after(checked_version) if log.version > checked_version else {}
        require_unchanged(output, recorded, log, restores)
        if not restores:
            self._checked_versions[output] = log.version

    def _recorded_table(self, output: str) -> RecordedTable | None:
        return self.recorded_tables.get(output) or self.lineage.tables.get(output)

    def require_unchanged_tables(self, spark: SparkSession) -> None:
        """Refuse tables that were deleted, replaced or restored since the last batch.

        Called before a batch writes anything, because a sink reads its tables before it commits.
        """
        lineage = self.lineage
        for output in lineage.tables:
            path, recorded = self._outputs.get(output), self._recorded_table(output)
            if path is None or recorded is None or self._is_as_recorded(spark, path, recorded):
                continue
            self._require_unchanged(output, recorded, read_table_log(spark, path))
        for output in self._unfenced_outputs - lineage.tables.keys() - self.recorded_tables.keys():
            log = read_table_log(spark, self._outputs[output])
            if log.id is not None and lineage.query is not None:
                query_id = lineage.commit_query_id(lineage.query)
                last_batch = log.last_batch(app_id(lineage.job, query_id, output))
                require_recorded(output, log.path, last_batch, lineage.committed_batches)

    def _is_as_recorded(self, spark: SparkSession, path: str, recorded: RecordedTable) -> bool:
        """Return whether the log of a table ends with the recorded commit.

        Such a table is unchanged, and Delta need not list its log. Any other table can still be a
        valid one.
        """
        if path not in self._log_folders:
            self._log_folders[path] = HadoopFolder(spark, f"{path}/_delta_log")
        log = self._log_folders[path]
        commit = log.read(commit_file_name(recorded.version))
        if commit is None or hash_content(commit) != recorded.commit_hash:
            return False
        return log.read(commit_file_name(recorded.version + 1)) is None

    def record_table(self, log: TableLog, stamp: Stamp) -> None:
        """Record the table after a commit."""
        if stamp.output not in self._outputs:
            return
        version, commit_hash = log.version, log.commit_hash(log.version)
        if log.id is not None and commit_hash is not None:
            self.recorded_tables[stamp.output] = RecordedTable(
                path=log.path, id=log.id, version=version, commit_hash=commit_hash
            )

    def record_existing_tables(self, plan: BatchPlan) -> None:
        """Record the tables that have the first batch of a start already.

        A driver that was killed before it recorded the batch has written them, and the sink has
        skipped the batch without a commit.
        """
        for output in self._outputs.keys() - self.recorded_tables.keys():
            log = self._read_log(self._outputs[output])
            stamp = Stamp.for_batch(CommitContext(plan=plan), output)
            if log.last_batch(stamp.app_id) != plan.number:
                continue
            found_stamp = log.find_stamp(stamp.app_id, plan.number)
            if found_stamp is not None:
                require_single_writer(
                    log.path, [found_stamp], batch=stamp.batch, offsets_hash=stamp.offsets_hash
                )
                self.require_unchanged(log, stamp)
                self.record_table(log, stamp)

    def _read_log(self, path: str) -> TableLog:
        return read_table_log(self.lineage_files.spark, path)

    def fence(self, tables: Mapping[str, TableLog], query: str) -> None:
        """Fence off an earlier driver that can have an open transaction on one of the tables.

        That driver can have checked for a later start before this one claimed its epoch. A table
        that does not exist yet cannot be fenced; it is checked before each batch until it is
        recorded.
        """
        for output, log in tables.items():
            if log.id is not None:
                metadata = {"tidegate": "fence", "output": output, "epoch": self.lineage.epoch}
                log.fence(app_id(self.lineage.job, query, output), json.dumps(metadata))
            elif output in self._outputs:
                self._unfenced_outputs.add(output)

    def record_batch(self, plan: BatchPlan, stats: BatchStats, query: str) -> None:
        """Record that a batch is in all of its tables, before Spark's commit log has it.

        A fenced driver must not reach Spark's commit, which the lineage of the later driver would
        lack.
        """
        self.require_newest_epoch()
        is_first = not self._has_recorded_batch
        if is_first:
            self.record_existing_tables(plan)
        number = plan.number - self.lineage.batch_number_offset
        with self._write_lock:
            lineage = self.lineage.with_batch(
                number,
                plan.offsets_hash,
                self.recorded_tables,
                query=query,
                max_event_time=stats.max_event_time,
                topic_ids=stats.topic_ids,
                max_event_times=stats.max_event_times,
            )
            if is_first:
                # Spark has written the static files by the first batch.
                lineage = replace(lineage, file_hashes=self._static_file_hashes())
            self._write_lineage(self._with_commit(lineage, number - 1))
            self.recorded_tables = {}
            self._has_recorded_batch = True

    def release(self) -> None:
        """Record that this driver writes no more, so that the next one need not fence it off."""
        with self._write_lock, suppress(OSError):
            self._write_lineage(replace(self.lineage, released=True))

    def record_spark_commit(self) -> None:
        """Record the last batch's file in Spark's commit log, once it is written.

        A failure of the file system is ignored: the next batch records the file too.
        """
        with self._write_lock, suppress(OSError):
            lineage = self._with_commit(self.lineage, self.lineage.last_batch)
            if lineage != self.lineage:
                self._write_lineage(lineage)

    def _with_commit(self, lineage: CheckpointLineage, number: int) -> CheckpointLineage:
        if number < 0 or number in lineage.commit_hashes:
            return lineage
        files = self.lineage_files
        content = read_bytes(files.spark, f"{files.path}/commits/{number}")
        return lineage if not content else lineage.with_commit(number, hash_content(content))

    def _write_lineage(self, lineage: CheckpointLineage) -> None:
        self.lineage_files.write(lineage)
        self.lineage = lineage
