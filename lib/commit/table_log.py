"""The batches and stamps in the log of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from ..checkpoint.lineage import NO_BATCH
from ..checkpoint.spark_logs import hash_content
from ..delta.commit_options import CommitOptions
from ..errors import TableError
from ..jvm import (
    TRANSACTION_RETENTION,
    DeltaState,
    HadoopFolder,
    commit_file_name,
    delta_state,
    touch_transaction,
)
from .batch import Stamp, is_late_replay


def restored_versions(commit: bytes) -> Iterator[int | None]:
    """Return the version that a RESTORE has restored; None if the commit does not have it."""
    for info in _actions(commit, "commitInfo"):
        if info.get("operation") == "RESTORE":
            version = info.get("operationParameters", {}).get("version")
            yield None if version is None else int(version)


def parse_stamp(commit: bytes) -> Stamp | None:
    """Return the stamp of a commit; None for a commit of another program."""
    for info in _actions(commit, "commitInfo"):
        return Stamp.from_json(info.get("userMetadata"))
    return None


def _actions(commit: bytes, action_name: str) -> Iterator[Mapping[str, Any]]:
    start = f'{{"{action_name}"'.encode()
    return (json.loads(line)[action_name] for line in commit.splitlines() if line.startswith(start))


_MAX_COMMITS_READ = 20
"""The maximum number of commits to read; beyond it Delta answers, which can run a Spark job."""


@dataclass(frozen=True)
class _SeenVersion:
    """The last transaction version of an application id up to a version of the table.

    commit_hash: the hash of that version's commit, which detects a restored table.
    """

    version: int
    txn_version: int | None
    commit_hash: str


_SEEN: dict[tuple[str, str], _SeenVersion] = {}
"""By table id and application id; only the commits since the seen version have to be read."""


class TableLog:
    """The log of the Delta table at `path`, as of the last refresh."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path
        self.state: DeltaState | None = None
        self._txn_versions: dict[str, int] = {}
        self._newest_commit: bytes | None = None
        self._log_folder: HadoopFolder | None = None

    def refresh(self) -> Self:
        """Read the state of the table again, and return this log."""
        self.state = delta_state(self.spark, self.path)
        self._newest_commit = None
        return self

    def load_metadata(self) -> Self:
        """Read the metadata of the table, which fails for a damaged log, and return this log."""
        state = self._current_state()
        if state.version >= 0:
            state.properties()
        return self

    @property
    def id(self) -> str | None:
        """The id of the table; None without a table."""
        state = self._current_state()
        return None if state.version < 0 else state.table_id()

    @property
    def version(self) -> int:
        """The newest version of the table; -1 without a table."""
        return self._current_state().version

    def count_files(self) -> int:
        """Return the number of data files, which requires the complete log."""
        return self._current_state().count_files()

    def commit_hash(self, version: int) -> str | None:
        """Return the hash of a version's commit; None if the log no longer has it."""
        content = self._read_commit(version)
        return None if content is None else hash_content(content)

    def restores_after(self, after_version: int) -> dict[int, int | None]:
        """Return the RESTORE commits after a version, and the version that each restored."""
        return {
            version: restored_version
            for version in range(after_version + 1, self.version + 1)
            for restored_version in restored_versions(self._read_commit(version) or b"")
        }

    def stamps_after(self, app_id: str, after_version: int) -> list[Stamp]:
        """Return the stamps of an application id in the commits after a version."""
        versions = range(after_version + 1, self.version + 1)
        stamps = [parse_stamp(self._read_commit(version) or b"") for version in versions]
        return [stamp for stamp in stamps if stamp is not None and stamp.app_id == app_id]

    def writer_app_ids(self) -> list[str]:
        """Return every application id that has written to the table."""
        return list(self._current_state().txn_versions())

    def _current_state(self) -> DeltaState:
        if self.state is None:
            self.state = delta_state(self.spark, self.path)
        return self.state

    def last_batch(self, app_id: str) -> int | None:
        """Return the last batch of an application id; None without one.

        Raises:
            TableError: for a table that forgets its batches after some time.
        """
        self._txn_versions[app_id] = NO_BATCH
        if self.refresh().version < 0:
            return None
        txn_version = self._last_txn_version(self.require_txn_retention(), app_id)
        # A fence of an application id without commits is not a batch.
        self._txn_versions[app_id] = txn_version if txn_version is not None else NO_BATCH
        return None if txn_version == NO_BATCH else txn_version

    def _last_txn_version(self, state: DeltaState, app_id: str) -> int | None:
        key = (state.table_id(), app_id)
        newest_commit = self._read_commit(state.version)
        txn_version = self._find_txn_version(state, app_id, _SEEN.get(key))
        if newest_commit is not None:
            _SEEN[key] = _SeenVersion(state.version, txn_version, hash_content(newest_commit))
        return txn_version

    def _find_txn_version(
        self, state: DeltaState, app_id: str, seen: _SeenVersion | None
    ) -> int | None:
        """Return the last transaction version from the commits after the seen one.

        Delta answers if there are too many commits, or if some are no longer there.
        """
        oldest = 0 if seen is None else seen.version
        if not 0 <= state.version - oldest <= _MAX_COMMITS_READ:
            return state.txn_version(app_id)
        for version in range(state.version, oldest - 1, -1):
            commit = self._read_commit(version)
            if commit is None:
                return state.txn_version(app_id)
            if seen is not None and version == seen.version:
                if hash_content(commit) == seen.commit_hash:
                    return seen.txn_version
                # An older copy of the table was restored and written to.
                return state.txn_version(app_id)
            transactions = [txn for txn in _actions(commit, "txn") if txn["appId"] == app_id]
            if transactions:
                return int(transactions[-1]["version"])
        return None

    def txn_time(self, app_id: str) -> int | None:
        """Return the time of the last batch of an application id, in milliseconds since 1970."""
        return self._current_state().txn_time(app_id)

    def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
        """Return the stamp of the commit with this application id and number."""
        for stamp in self._effective_stamps():
            if stamp.app_id == app_id and stamp.batch <= batch:
                return stamp if stamp.batch == batch else None
        return None

    def last_stamp(self, job: str, output: str) -> Stamp | None:
        """Return the newest stamp of an output of a job, of any query; None without one.

        Replays of late rows and commits that a RESTORE has undone do not count.
        """
        for stamp in self._effective_stamps():
            if not is_late_replay(stamp.query) and (stamp.job, stamp.output) == (job, output):
                return stamp
        return None

    def _effective_stamps(self) -> Iterator[Stamp]:
        """Return the stamps of the commits whose rows the table has, newest first.

        A RESTORE removes rows and leaves the transaction versions. Nothing is known before a
        RESTORE whose commit does not have the restored version, or before a missing commit.
        """
        version: int | None = self.version
        while version is not None and version >= 0:
            content = self._read_commit(version)
            if content is None:
                return
            stamp = parse_stamp(content)
            if stamp is not None:
                yield stamp
            version = next(restored_versions(content), version - 1)

    def fence(self, app_id: str, metadata: str) -> None:
        """Make an open transaction of another driver with this application id fail.

        metadata: the metadata of the commit, which has no rows.
        """
        last_batch = self.last_batch(app_id)
        with CommitOptions.commit_metadata(self.spark, metadata):
            touch_transaction(
                self.spark, self.path, app_id, NO_BATCH if last_batch is None else last_batch
            )

    def _read_commit(self, version: int) -> bytes | None:
        """Return the commit of a version; the newest one is read once per refresh."""
        state = self._current_state()
        if version == state.version and self._newest_commit is not None:
            return self._newest_commit
        if self._log_folder is None:
            self._log_folder = HadoopFolder(self.spark, state.log_path)
        content = self._log_folder.read(commit_file_name(version))
        if version == state.version:
            self._newest_commit = content
        return content

    def require_txn_retention(self) -> DeltaState:
        """Refuse a table that forgets its batches; return its state."""
        state = self._current_state()
        retention = state.property(TRANSACTION_RETENTION)
        if retention is not None:
            raise TableError(
                f"invalid property of {self.path}: {TRANSACTION_RETENTION} = {retention}",
                "a table without it; with it the table forgets its batches after that time",
                f"ALTER TABLE delta.`{self.path}` UNSET TBLPROPERTIES ('{TRANSACTION_RETENTION}')",
            )
        return state
