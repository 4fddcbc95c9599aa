"""Exactly once: the commit stamp and the replay check, over Delta's transaction numbers."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from delta.exceptions.base import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrameWriter, SparkSession

from ..errors import ConfigError, ConflictError, ReplayMismatchError
from ..jvm import DeltaState, delta_state, message, read_bytes
from .batch import Batch
from .sink import Outcome
from .stamp import Stamp

CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
ATTEMPTS = 6
CHANGED = "another writer changed a row between its reading and the merge"
_FEW = 20
_RETENTION = "delta.setTransactionRetentionDuration"
_SETTINGS = {
    "app_id": "spark.databricks.delta.write.txnAppId",
    "version": "spark.databricks.delta.write.txnVersion",
    "user_metadata": "spark.databricks.delta.commitInfo.userMetadata",
}


class CommitLog(Protocol):
    """What exactly-once needs of a table: Delta's, or a model of it."""

    def done(self, app_id: str) -> int | None:
        """Give the last number that the table has of an application id."""

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        """Find the stamp of the commit that bears this application id and number."""

    def commit(self, stamp: Stamp) -> None:
        """Write the rows under the stamp; does nothing where the number is already done. May raise ConflictError."""


def once(log: CommitLog, stamp: Stamp, *, pause: Callable[[float], None] = time.sleep) -> Outcome:
    """Commit what the stamp stands for, unless the table has it; the heart of `commit_once`, for any CommitLog."""
    for attempt in range(ATTEMPTS):
        if _has(log, stamp):
            return "skipped" if attempt == 0 else "written"
        try:
            log.commit(stamp)
        except ConflictError:
            # The answer to our own commit may have been lost: the next look at the log tells.
            if attempt == ATTEMPTS - 1 and not _has(log, stamp):
                raise
            pause(min(0.1 * 2**attempt, 2.0))
            continue
        if _has(log, stamp):
            return "written"
        raise ReplayMismatchError(
            f"batch {stamp.batch} was written and its number is not in the log of {stamp.app_id}.",
            "a table that keeps transaction numbers.",
            "look for a writer that restored or replaced the table meanwhile.",
        )
    return "written"


def _has(log: CommitLog, stamp: Stamp) -> bool:
    """Tell whether the table has the batch, and refuse a batch of the same number that is another one."""
    last = log.done(stamp.app_id)
    if last is None or last < stamp.batch:
        return False
    found = log.stamp(stamp.app_id, stamp.batch)
    if found is not None and (found.offsets, found.step) == (stamp.offsets, stamp.step):
        return True
    theirs = "no stamp of ours" if found is None else f"offsets {found.offsets} (run {found.run})"
    raise ReplayMismatchError(
        f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id} with {theirs}; "
        f"planned now are offsets {stamp.offsets}.",
        "the same offsets for the same batch: a checkpoint and a table that belong together.",
        "restore the checkpoint that wrote this table, or start with a new one and a new table; nothing was written.",
    )


def current(log: CommitLog, stamp: Stamp) -> None:
    """Refuse a table that is ahead of the batch that a run begins with; the heart of `require_current`."""
    last = log.done(stamp.app_id)
    if last is not None and last > stamp.batch:
        raise ReplayMismatchError(
            f"{getattr(log, 'path', 'the table')} has batch {last} of {stamp.app_id}; "
            f"the checkpoint goes on with batch {stamp.batch}.",
            "a checkpoint as new as its tables.",
            "restore its newest copy, or start with a new one and new tables; nothing was written.",
        )
    _has(log, stamp)


@dataclass(frozen=True)
class CommitOptions:
    """What a commit carries: Delta's application id and version, and the stamp."""

    app_id: str
    version: int
    user_metadata: str

    def on(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Set them on a DataFrameWriter."""
        return (
            writer.option("txnAppId", self.app_id)
            .option("txnVersion", str(self.version))
            .option("userMetadata", self.user_metadata)
        )

    def merge(self, spark: SparkSession, path: str, merge: DeltaMergeBuilder) -> None:
        """Run a merge under them; a value that raised CHANGED has found another writer's row in place of the one read.

        Raises ConflictError for that; nothing was written then.
        """
        with self.session(spark):
            try:
                merge.execute()
            except Exception as error:
                if CHANGED in message(error):
                    raise ConflictError(f"{path}: {CHANGED}.", hint="let one job alone write a table.") from error
                raise

    @contextmanager
    def session(self, spark: SparkSession) -> Iterator[None]:
        """Set them on the session while MERGE, UPDATE or DELETE run, which take them from there alone.

        They are unset whatever happens: Delta would skip each later write of the session in silence. Spark gives every
        streaming query a session of its own, so that two queries do not meet here.
        """
        try:
            for name, key in _SETTINGS.items():
                spark.conf.set(key, str(getattr(self, name)))
            yield
        finally:
            for key in _SETTINGS.values():
                spark.conf.unset(key)


@dataclass(frozen=True)
class _Known:
    """What the log of a table said up to a version: the last number of an application id, and that version's commit."""

    version: int
    number: int | None
    commit: str


_KNOWN: dict[tuple[str, str], _Known] = {}
"""By table id and application id. Delta works its numbers out by a Spark job, anew for each version; the few commits
since the version that is known here are read in milliseconds."""


class _DeltaCommitLog:
    def __init__(self, spark: SparkSession, path: str, write: Callable[[CommitOptions], None]) -> None:
        self.spark, self.path, self.write = spark, path, write
        self.state: DeltaState | None = None

    def done(self, app_id: str) -> int | None:
        self.state = state = delta_state(self.spark, self.path)
        if state.version < 0:
            return None
        self._require_memory(state)
        key, newest = (state.table_id(), app_id), self._content(state, state.version)
        number = self._since(state, app_id, _KNOWN.get(key))
        if newest is not None:
            _KNOWN[key] = _Known(state.version, number, _digest(newest))
        return number

    def _since(self, state: DeltaState, app_id: str, known: _Known | None) -> int | None:
        """Find the last number in the commits after the version that is known, if they are few and all there."""
        oldest = 0 if known is None else known.version
        if not 0 <= state.version - oldest <= _FEW:
            return state.transaction(app_id)
        for version in range(state.version, oldest - 1, -1):
            content = self._content(state, version)
            if content is None:
                return state.transaction(app_id)
            if known is not None and version == known.version:
                # Another commit under that version: an older copy of the table was restored, and went on from there.
                return known.number if _digest(content) == known.commit else state.transaction(app_id)
            numbers = [txn["version"] for txn in _actions(content, "txn") if txn["appId"] == app_id]
            if numbers:
                return int(numbers[-1])
        return None

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        state = self.state or delta_state(self.spark, self.path)
        for version in range(state.version, -1, -1):
            content = self._content(state, version)
            if content is None:
                return None
            found = _stamp_of(content)
            if found is not None and found.app_id == app_id and found.batch <= number:
                return found if found.batch == number else None
        return None

    def _content(self, state: DeltaState, version: int) -> bytes | None:
        return read_bytes(self.spark, f"{state.log_path}/{version:020d}.json")

    def _require_memory(self, state: DeltaState) -> None:
        kept = state.property(_RETENTION)
        if kept is not None:
            raise ConfigError(
                f"{self.path} has {_RETENTION} = {kept}: after that time it forgets which batches it holds.",
                "a table that never forgets them: the property is not set.",
                f"ALTER TABLE ... UNSET TBLPROPERTIES ('{_RETENTION}')",
            )

    def commit(self, stamp: Stamp) -> None:
        try:
            self.write(CommitOptions(stamp.app_id, stamp.batch, stamp.text()))
        except CONFLICTS as error:
            raise ConflictError(
                f"{self.path}: batch {stamp.batch} met another writer's commit, {ATTEMPTS} times: {message(error)}",
                hint="let other writers (compaction, deletes) run between batches, or on other partitions.",
            ) from error


def _digest(commit: bytes) -> str:
    return hashlib.sha256(commit).hexdigest()


def _stamp_of(commit: bytes) -> Stamp | None:
    for info in _actions(commit, "commitInfo"):
        return Stamp.parse(info.get("userMetadata"))
    return None


def _actions(commit: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """Give a commit's actions of one kind."""
    start = f'{{"{kind}"'.encode()
    return (json.loads(line)[kind] for line in commit.splitlines() if line.startswith(start))


def commit_once(
    spark: SparkSession,
    path: str,
    batch: Batch,
    step: str,
    write: Callable[[CommitOptions], None],
    rows: Mapping[str, int],
) -> Outcome:
    """Run `write` so that the table gets this step of this batch exactly once.

    `write` must make exactly one Delta commit on `path`, with the options it is given, and may be called again after a
    conflict with another writer (up to six times, 3 seconds in all). "skipped" means that the table had the batch.

    Before writing: if the table's log has the step's application id (job/query/step) at this number or a later one,
    the stamp of that commit must bear the hash of the offsets planned now. After writing: the log must show our number
    under our stamp, so that a write which Delta skipped never passes for one that happened. The stamp is looked for in
    the JSON commits of the log, which Delta keeps for 30 days (delta.logRetentionDuration).

    Raises ReplayMismatchError when the batch that the table has is another, or its stamp is gone.
    """
    return once(_DeltaCommitLog(spark, path, write), Stamp.of(batch, step, rows))


def last_batch(spark: SparkSession, path: str, batch: Batch, step: str) -> int | None:
    """Give the number of the last batch that the table has of this query's step; None where it has none."""
    return _DeltaCommitLog(spark, path, _nothing).done(Stamp.of(batch, step, {}).app_id)


def require_current(spark: SparkSession, path: str, batch: Batch, step: str) -> None:
    """Refuse a checkpoint older than the table; to be asked before the first batch of a run.

    A batch that writes nothing leaves no number in the table. So a checkpoint restored from an old copy could pass the
    table's last number by batches without rows, and write again what the table has; `commit_once` would not notice.

    Raises ReplayMismatchError.
    """
    current(_DeltaCommitLog(spark, path, _nothing), Stamp.of(batch, step, {}))


def _nothing(_: CommitOptions) -> None:
    """Write no rows."""
