"""Erasure of a data subject below some folders: find, delete, vacuum, and scan again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from ...checkpoint.lineage_files import LineageFiles
from ...commit.batch import is_late_replay
from ...commit.delta_commit import read_table_log
from ...commit.ownership import require_unchanged
from ...errors import ArgumentError, CheckpointError, ColumnTypeError, TableError
from ...jvm import DeltaState, clear_table_cache, delta_state, local_folders
from ...paths import is_below
from ...sketches.bloom_table import BLOCK, FILTER
from ...spark.job_session import in_job_session
from ...spark.spark_errors import explain_disk_errors
from ..offline_lease import OfflineLease, require_ended
from .erasure_report import (
    TOPIC_REMEDY,
    ErasureReport,
    ExternalDestination,
    RemainingData,
    ScanTotals,
    TableReport,
    find_external_destinations,
)
from .inventory import Inventory, Root
from .purge import is_purge_unfinished, merged_late_rows_version, purge_table, query_id_of
from .remaining import remaining_in_files, remaining_in_sketches, remaining_in_states
from .row_scan import count_subject_rows, delete_subject_rows
from .scan import FileScan, scan_files
from .subject import DataSubject, Identifier

_PURGE_ACTIONS = (
    "Deleted the rows, and all files and log entries of earlier versions of the table.",
    "Would delete the rows, and all files and log entries of earlier versions of the table.",
)
_FILTER_ACTIONS = (
    "Deleted the Bloom filter, which can confirm a guess at a key; the next batch of its job "
    "rebuilds it from the target.",
    "Would delete the Bloom filter; the next batch of its job rebuilds it from the target.",
)
"""What an erasure does, and what a dry run would do."""


@dataclass(frozen=True)
class OfflineLeases:
    """The leases of all checkpoints below the roots."""

    spark: SparkSession
    leases: Sequence[OfflineLease]

    @classmethod
    def acquire(
        cls, spark: SparkSession, checkpoints: Iterable[str], *, read_only: bool = False
    ) -> OfflineLeases:
        """Claim checkpoints, so that earlier drivers are fenced off; claim none with `read_only`.

        Raises:
            CheckpointError: if a driver may still write.
            TableMismatchError: for a restored table, whose log is the only record of that.
        """
        ended = []
        for path in checkpoints:
            files = LineageFiles(spark, path)
            lineage = files.read()
            if lineage is None and not files.newest_epoch():
                continue
            if not read_only or lineage is None:
                lineage = require_ended(files, lineage)
            ended.append(OfflineLease(files, lineage))
        if read_only:
            return cls(spark, ended)
        for each in ended:
            for output, recorded in each.lineage.tables.items():
                log = read_table_log(spark, recorded.path)
                if log.id == recorded.id:
                    require_unchanged(output, recorded, log)
        leases = []
        for each in ended:
            claimed = replace(each.lineage, epoch=each.lineage.epoch + 1)
            leases.append(OfflineLease.acquire(each.files, claimed))
            each.files.delete_old_files(claimed.epoch)
        return cls(spark, leases)

    def require_writers_leased(self, paths: Iterable[str]) -> None:
        """Raise CheckpointError for tables written by a query whose checkpoint is not leased."""
        for path in paths:
            for app_id in read_table_log(self.spark, path).writer_app_ids():
                query_id = query_id_of(app_id)
                if query_id not in self.query_ids and not is_late_replay(query_id):
                    raise CheckpointError(
                        f"the job that writes {path} may not have ended",
                        f"the checkpoint of its writer {app_id} is not below the roots",
                        "add the folder of the checkpoint as a root; or pass --stopped if the job "
                        "does not run",
                    )

    @property
    def query_ids(self) -> set[str]:
        """The query ids of the leased checkpoints, as in their commits."""
        lineages = [lease.lineage for lease in self.leases]
        return {each.commit_query_id(each.query) for each in lineages if each.query is not None}

    @property
    def topics(self) -> list[str]:
        """The topics that the checkpoints have read."""
        return sorted({topic for lease in self.leases for topic in lease.lineage.topic_ids})

    def dead_letter_topics(self) -> Iterator[ExternalDestination]:
        """Return the topics to which the jobs of the checkpoints have sent dead letters."""
        for lease in self.leases:
            for topic in lease.lineage.dead_letter_topics:
                yield ExternalDestination(
                    destination_type="topic",
                    name=topic,
                    recorded_in=lease.files.path,
                    remedy=TOPIC_REMEDY,
                )

    def require_not_fenced(self) -> None:
        """Raise FencedError if a job was started meanwhile."""
        for lease in self.leases:
            lease.require_not_fenced()

    def record_table_versions(self) -> None:
        """Record the current version of each table, so that a restored older copy is refused."""
        self.require_not_fenced()
        for lease in self.leases:
            tables = dict(lease.lineage.tables)
            for output, recorded in tables.items():
                log = read_table_log(self.spark, recorded.path)
                commit = log.commit_hash(log.version)
                if log.id == recorded.id and commit is not None:
                    tables[output] = replace(recorded, version=log.version, commit_hash=commit)
            lease.files.write(replace(lease.lineage, tables=tables))


@dataclass(frozen=True)
class RootErasure:
    """The erasure of a data subject below one root."""

    spark: SparkSession
    root: Root
    inventory: Inventory
    subject: DataSubject

    @property
    def table_paths(self) -> list[str]:
        """The paths of the tables."""
        return [self.root.absolute(name) for name in self.inventory.tables]

    def scan(self, *, rescan: bool = False) -> list[FileScan]:
        """Scan all files; with `rescan`, list them again first."""
        inventory = self.root.take_inventory() if rescan else self.inventory
        return scan_files(self.root, inventory.files, self.subject)

    def require_deletable(self) -> None:
        """Raise TableError for append-only tables with rows of the subject."""
        for name in self.inventory.tables:
            path = self.root.absolute(name)
            append_only = self._delta_state(name).property("delta.appendOnly") or ""
            if append_only.lower() == "true" and self._count_rows(name):
                raise TableError(
                    f"cannot delete rows of {path}: the table is append-only",
                    "tables without delta.appendOnly, since this one has rows of the data subject",
                    f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'false'), "
                    "and 'true' again afterwards",
                )

    def erase_tables(
        self, file_scans: Sequence[FileScan], leases: OfflineLeases, *, dry_run: bool
    ) -> Iterator[TableReport]:
        """Erase the subject from each table with its data; return a report of each."""
        reports = {
            name: report
            for name in self.inventory.tables
            if (report := self._table_report(name, file_scans, dry_run)) is not None
        }
        filters = self._bloom_filter_tables(reports)
        merged_versions = {} if dry_run else {name: self._merged_version(name) for name in reports}
        # Filters first: the contents of the other tables determine which filters to delete.
        for name in filters:
            if not dry_run:
                leases.require_not_fenced()
                self.root.delete_folder(name)
            yield TableReport(path=self.root.absolute(name), action=_FILTER_ACTIONS[dry_run])
        for name, report in reports.items():
            if name not in filters:
                if not dry_run:
                    path, check_lease = self.root.absolute(name), leases.require_not_fenced
                    local_subject = self.subject.for_path(path)
                    if report.rows and local_subject is not None:
                        delete_subject_rows(self.spark, path, local_subject, check_lease)
                    purge_table(self.spark, self.root, name, check_lease, merged_versions[name])
                yield report

    def remaining(self, file_scans: Sequence[FileScan], *, dry_run: bool) -> list[RemainingData]:
        """Return the subject's remaining data, from a scan and from the state of queries."""
        return [
            *remaining_in_files(self.root, file_scans, include_tables=not dry_run),
            *remaining_in_states(self.spark, self.root, self.inventory, self.subject),
            *remaining_in_sketches(self.root, file_scans),
        ]

    def _table_report(
        self, name: str, file_scans: Sequence[FileScan], dry_run: bool
    ) -> TableReport | None:
        rows = self._count_rows(name)
        own_files = (each.file for each in file_scans if each.is_match and each.file.owner == name)
        files = Counter(file.file_kind for file in own_files)
        is_found = rows or files["rows"] or files["log"]
        if not (is_found or is_purge_unfinished(self._delta_state(name))):
            return None
        return TableReport(
            path=self.root.absolute(name),
            rows=rows,
            data_files=files["rows"],
            log_files=files["log"],
            action=_PURGE_ACTIONS[dry_run],
        )

    def _bloom_filter_tables(self, tables: Iterable[str]) -> list[str]:
        """Return the Bloom filters of AppendUnique sinks in the jobs of some tables."""
        app_ids = {name: self._delta_state(name).txn_versions() for name in self.inventory.tables}
        query_ids = {query_id_of(app_id) for name in tables for app_id in app_ids[name]}
        return [
            name
            for name in self.inventory.tables
            if set(self._delta_state(name).schema().fieldNames()) == {BLOCK, FILTER}
            and any(
                app_id.endswith("/seen") and query_id_of(app_id) in query_ids
                for app_id in app_ids[name]
            )
        ]

    def _count_rows(self, name: str) -> int:
        path = self.root.absolute(name)
        local_subject = self.subject.for_path(path)
        if local_subject is None:
            return 0
        return count_subject_rows(self.spark.read.format("delta").load(path), local_subject)

    def _merged_version(self, name: str) -> int | None:
        """Return the version up to which late rows were merged, before the table is changed."""
        # An unfinished purge has recorded it in the table.
        if is_purge_unfinished(self._delta_state(name)):
            return None
        return merged_late_rows_version(self.spark, self.root.absolute(name), self.table_paths)

    def _delta_state(self, name: str) -> DeltaState:
        return delta_state(self.spark, self.root.absolute(name))


@in_job_session
def erase(
    spark: SparkSession,
    roots: Sequence[str],
    where: Sequence[str],
    *,
    dry_run: bool = False,
    jobs_stopped: bool = False,
) -> ErasureReport:
    """Delete a data subject's rows from all Delta tables below some folders, and verify by a scan.

    A row belongs to the subject if a column of an identifier, at any depth, has its value; a dead
    letter if any text or bytes of its record contain an identifier. Tables with the subject in a
    row, an older file or their log are reduced to the files of their newest version; earlier
    versions cannot be read any more. Their jobs resume from their checkpoints.

    After a kill, call it again: each step follows from the data that it finds. The jobs must have
    ended; a job that is started meanwhile ends the call.

    Args:
        spark: a session with Delta.
        roots: folders with tables and their checkpoints.
        where: COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table, by its path below the root or its
            name. Each one identifies the subject.
        dry_run: report without changes.
        jobs_stopped: assert that jobs with checkpoints outside of the roots have ended.

    Raises:
        ArgumentError: for roots that are not folders or contain one another, and without
            identifiers.
        TableError: for an append-only table with such rows; nothing was deleted.
        CheckpointError: for a job that has not ended, or may not have ended.
        TableMismatchError: for a table that was restored since its job's last batch.
        FencedError: if a job was started meanwhile.
        SetupError: for a full or read-only disk.

    >>> from tempfile import mkdtemp
    >>> root = mkdtemp()
    >>> views = spark.createDataFrame([("alice", 3), ("ben", 4)], "user STRING, views INT")
    >>> views.write.format("delta").save(f"{root}/views")
    >>> report = erase(spark, [root], ["user=alice"])
    >>> report.is_clean, [table.rows for table in report.tables]
    (True, [1])
    """
    for label, values in (("roots", roots), ("where", where)):
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ColumnTypeError(
                f"invalid {label}: {values!r}", "a list of texts", f"{label}=[...]"
            )
    subject = DataSubject([Identifier.parse(each) for each in where])
    root_folders = [Root(path) for path in roots]
    _require_disjoint([each.path for each in root_folders])
    with explain_disk_errors([*(each.path for each in root_folders), *local_folders(spark)]):
        return _erase_below(
            root_folders, subject, spark, dry_run=dry_run, jobs_stopped=jobs_stopped
        )


def _erase_below(
    root_folders: Sequence[Root],
    subject: DataSubject,
    spark: SparkSession,
    *,
    dry_run: bool,
    jobs_stopped: bool,
) -> ErasureReport:
    started = datetime.now(UTC)
    clock = time.monotonic()
    erasures = [RootErasure(spark, each, each.take_inventory(), subject) for each in root_folders]
    checkpoints = [
        each.root.absolute(name) for each in erasures for name in each.inventory.checkpoints
    ]
    leases = OfflineLeases.acquire(spark, checkpoints, read_only=dry_run)

    table_paths = [path for each in erasures for path in each.table_paths]
    # All checks precede the first deletion.
    if not dry_run and not jobs_stopped:
        leases.require_writers_leased(table_paths)
    for each in erasures:
        each.require_deletable()
    destinations = [*find_external_destinations(spark, table_paths), *leases.dead_letter_topics()]
    first_scans = [each.scan() for each in erasures]

    tables = [
        report
        for each, file_scans in zip(erasures, first_scans, strict=True)
        for report in each.erase_tables(file_scans, leases, dry_run=dry_run)
    ]
    if not dry_run:
        clear_table_cache(spark)
        leases.record_table_versions()

    last_scans = first_scans if dry_run else [each.scan(rescan=True) for each in erasures]
    remaining = [
        item
        for each, file_scans in zip(erasures, last_scans, strict=True)
        for item in each.remaining(file_scans, dry_run=dry_run)
    ]
    return ErasureReport(
        identifiers=subject.identifiers,
        roots=[each.path for each in root_folders],
        dry_run=dry_run,
        started=started,
        seconds=time.monotonic() - clock,
        tables=tables,
        remaining=remaining,
        topics=leases.topics,
        external_destinations=destinations,
        first_scan=_sum_scans(first_scans),
        last_scan=None if dry_run else _sum_scans(last_scans),
    )


def _require_disjoint(paths: Sequence[str]) -> None:
    if not paths:
        raise ArgumentError("invalid roots: none", "one folder or more")
    for one in paths:
        for other in paths:
            if is_below(one, other) or paths.count(one) > 1:
                raise ArgumentError(
                    f"invalid roots: {one} and {other}", "folders that do not contain one another"
                )


def _sum_scans(scans: Iterable[Sequence[FileScan]]) -> ScanTotals:
    all_files = [each for file_scans in scans for each in file_scans]
    return ScanTotals(
        files=sum(not each.file.is_empty for each in all_files),
        bytes=sum(each.size for each in all_files),
        decoded_files=sum(each.is_parquet and not each.file.is_empty for each in all_files),
        matching_files=sum(each.is_match for each in all_files),
    )
