"""Delta's log of a table: its newest state, and hooks into the transactions that change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..errors import ConflictError, TableError
from .files import HadoopFolder, delete_files, missing_files
from .spark_internals import (
    active_session,
    java_class,
    java_object,
    jvm_session,
    require_pinned_threads,
)

_LOG = "org.apache.spark.sql.delta.DeltaLog"
_CLUSTERS = "org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo"
_OBSERVER = "org.apache.spark.sql.delta.TransactionExecutionObserver"

CHANGE_FEED = "delta.enableChangeDataFeed"
"""The property of a table that records what its commits change."""
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""The property of a table that forgets transaction numbers after some time."""


@dataclass(frozen=True)
class DeltaState:
    """One version of a Delta table's log; version -1 is a table that does not exist."""

    version: int
    log_path: str
    _snapshot: Any
    _clusters: Any

    @property
    def folder(self) -> str:
        """The folder of the table, as its file system spells it."""
        return self.log_path.rpartition("/")[0]

    def txn_version(self, app_id: str) -> int | None:
        """Return the last transaction version of an application id; None without one."""
        return self.txn_versions().get(app_id)

    def txn_versions(self) -> dict[str, int]:
        """Return the last transaction version of each application id."""
        return {str(each.appId()): int(each.version()) for each in self._transactions()}

    def txn_time(self, app_id: str) -> int | None:
        """Return the time of the last transaction version, in milliseconds since 1970.

        None without one, or if Delta has not stored the time.
        """
        times = [each.lastUpdated() for each in self._transactions() if each.appId() == app_id]
        return None if not times or times[0].isEmpty() else int(times[0].get())

    def _transactions(self) -> list[Any]:
        """Return the last transaction of each application id.

        Delta writes them into the checksum file of a commit. If it is missing, or if the table
        forgets transactions after some time, Delta runs two Spark queries per version.
        """
        checksum = _value_or_none(self._snapshot.checksumOpt())
        transactions = None
        if checksum is not None and self.property(TRANSACTION_RETENTION) is None:
            transactions = _value_or_none(checksum.setTransactions())
        if transactions is None:
            transactions = self._snapshot.setTransactions()
        return list(_items(transactions))

    def table_id(self) -> str:
        """Return the id of the table, which is assigned at its creation."""
        return str(self._snapshot.metadata().id())

    def created_at(self) -> int | None:
        """Return the time at which the table was created, in milliseconds since 1970."""
        time = _value_or_none(self._snapshot.metadata().createdTime())
        return None if time is None else int(time)

    def schema(self) -> StructType:
        """Return the table's columns."""
        return StructType.fromJson(json.loads(self._snapshot.schema().json()))

    def properties(self) -> dict[str, str]:
        """Return the table's properties."""
        pairs = _items(self._snapshot.metadata().configuration().toSeq())
        return {str(pair._1()): str(pair._2()) for pair in pairs}

    def clustering_columns(self) -> list[str]:
        """Return the clustering columns, with dots for fields of structs."""
        return [str(name) for name in _items(self._clusters.extractLogicalNames(self._snapshot))]

    def property(self, name: str) -> str | None:
        """Return a property of the table; None if it is not set."""
        value = _value_or_none(self._snapshot.metadata().configuration().get(name))
        return None if value is None else str(value)

    def size_in_bytes(self) -> int:
        """Return the size of the current files of the table.

        It is in the checksum file; without one Delta runs a Spark query.
        """
        checksum = _value_or_none(self._snapshot.checksumOpt())
        return int(self._snapshot.sizeInBytes() if checksum is None else checksum.tableSizeBytes())

    def count_files(self) -> int:
        """Return the number of current files; reads the complete log, by a Spark query.

        The number in the checksum file would be correct also for a log that cannot be read.
        """
        return int(self._snapshot.allFiles().count())

    def is_same_version(self, other: DeltaState) -> bool:
        """Return whether both states are the same version of the table.

        Delta caches the state of a version until it finds a newer one, or another commit of it.
        """
        return bool(self._snapshot.equals(other._snapshot))

    def has_change_feed(self) -> bool:
        """Return whether the table records what its commits change, row by row."""
        return (self.property(CHANGE_FEED) or "").lower() == "true"

    def has_deletion_vectors(self) -> bool:
        """Return whether files have deletion vectors; runs a Spark job."""
        count = self._snapshot.numDeletionVectorsOpt()
        return count.isEmpty() or int(count.get()) > 0

    def partition_columns(self) -> list[str]:
        """Return the partition columns."""
        return list(_items(self._snapshot.metadata().partitionColumns()))


def _items(sequence: Any) -> Iterator[Any]:
    """Iterate over a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _value_or_none(option: Any) -> Any:
    """Return the value of a Scala option; None for an empty one."""
    return None if option.isEmpty() else option.get()


def delta_state(spark: SparkSession, path: str) -> DeltaState:
    """Return the newest state of a table.

    An unchanged table costs a check of two files.
    """
    log = delta_log(spark, path)
    snapshot = _newest_snapshot(spark, log)
    clusters = java_class(spark, _CLUSTERS)
    return DeltaState(int(snapshot.version()), str(log.logPath().toString()), snapshot, clusters)


def checkpoint_table(spark: SparkSession, path: str) -> int:
    """Write Delta's checkpoint of the newest version of a table, and return the version."""
    log = delta_log(spark, path)
    snapshot = _newest_snapshot(spark, log)
    log.checkpoint(snapshot, java_class(spark, "scala.Option").empty())
    return int(snapshot.version())


def clear_table_cache(spark: SparkSession) -> None:
    """Clear Delta's cache of all tables, for example after a folder was renamed."""
    java_class(spark, _LOG).clearCache()


def commit_file_name(version: int) -> str:
    """Return the name of the commit file of a version."""
    return f"{version:020d}.json"


def delta_log(spark: SparkSession, path: str) -> Any:
    """Return Delta's log object of a table, with the versions that it has read."""
    return java_class(spark, _LOG).forTable(jvm_session(spark), path)


def _newest_snapshot(spark: SparkSession, log: Any) -> Any:
    snapshot = log.unsafeVolatileSnapshot()
    if _is_newest(spark, log, snapshot):
        return snapshot
    no_value = java_class(spark, "scala.Option").empty()
    return log.update(False, no_value, no_value)


def _is_newest(spark: SparkSession, log: Any, snapshot: Any) -> bool:
    """Return whether the commit file of a version is unchanged and the next one does not exist.

    If not, Delta lists the log, which has at least one file for each commit of thirty days.
    """
    version = int(snapshot.version())
    if version < 0 or snapshot.isCatalogOwned():
        return False
    if snapshot.tableCommitCoordinatorClientOpt().isDefined():
        return False
    recorded_time = int(snapshot.logSegment().lastCommitFileModificationTimestamp())
    with suppress(OSError):
        folder = HadoopFolder(spark, str(log.logPath().toString()))
        is_unchanged = folder.modified_at(commit_file_name(version)) == recorded_time
        return is_unchanged and folder.modified_at(commit_file_name(version + 1)) is None
    return False


@dataclass(frozen=True)
class CommitTransaction:
    """The transaction version that a commit sets for an application id.

    log_path: the log of the table, as Delta spells it.
    on_rows_added: called with the number of rows that the commit adds, before the other checks. If
        it raises, the files of the commit are deleted.
    """

    log_path: str
    app_id: str
    txn_version: int
    on_rows_added: Callable[[int], None] | None = None


class _CommitObserver:
    """Delta's observer of a thread's transactions, which runs checks right before each commit.

    The transaction is open by then, so a commit of another writer after the checks is a conflict.
    """

    def __init__(self, spark: SparkSession, before_commit: Callable[[], None]) -> None:
        self._spark = spark
        self._before_commit = before_commit
        self._transaction: Any = None
        self.next_transaction: CommitTransaction | None = None
        self.failure: BaseException | None = None

    # Delta calls these methods by name.
    def createChild(self) -> _CommitObserver:  # noqa: N802
        return self

    def startingTransaction(self, start: Any) -> Any:  # noqa: N802
        self._transaction = start.apply()
        return self._transaction

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        try:
            return self._checked_actions(prepare.apply())
        except BaseException as error:
            # Delta passes it on as text only.
            self.failure = error
            raise

    def _checked_actions(self, actions: Any) -> Any:
        """Return the actions of a commit, with the transaction version if one is set.

        Delta can run a compaction after the commit in the same thread.
        """
        transaction, self.next_transaction = self.next_transaction, None
        if transaction is None:
            self._before_commit()
            self._require_files(actions)
            return actions
        log_path = str(self._transaction.deltaLog().logPath().toString())
        if log_path != transaction.log_path:
            raise TableError(
                f"invalid commit to {log_path} in batch {transaction.txn_version} of "
                f"{transaction.app_id}",
                f"one commit, to {transaction.log_path}",
                "a separate output for each table; nothing was written",
            )
        if transaction.on_rows_added is not None:
            self._report_rows(actions, transaction.on_rows_added)
        self._before_commit()
        self._require_files(actions)
        # As a transaction that has read the version: a commit that sets another is a conflict.
        app_id = transaction.app_id
        self._transaction.readTxn().addOne(app_id)
        return actions.appended(
            _set_transaction_action(self._spark, app_id, transaction.txn_version)
        )

    def _report_rows(self, actions: Any, on_rows_added: Callable[[int], None]) -> None:
        files = [each for each in _items(actions) if each.getClass().getSimpleName() == "AddFile"]
        try:
            on_rows_added(sum(int(file.numLogicalRecords().get()) for file in files))
        except BaseException:
            # Otherwise each refused start of a job would leave the files of a batch.
            log = self._transaction.deltaLog()
            delete_files(self._spark, [file.absolutePath(log) for file in files])
            raise

    def _require_files(self, actions: Any) -> None:
        """Refuse to commit files that no longer exist."""
        log = self._transaction.deltaLog()
        paths = [path for each in _items(actions) for path in _written_paths(log, each)]
        missing = missing_files(self._spark, paths)
        if missing:
            raise ConflictError(
                f"files of a batch were deleted before their commit: {missing[0]}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
                "another program deletes files that the log does not contain yet, as VACUUM does "
                "with a retention shorter than a batch",
                "run VACUUM with the default retention, then start the job again. Nothing was "
                "committed.",
            )

    def beginDoCommit(self) -> None:  # noqa: N802
        return None

    beginBackfill = beginPostCommit = transactionCommitted = beginDoCommit  # noqa: N815
    transactionAborted = advanceToNextThreadObserver = beginDoCommit  # noqa: N815

    def clear(self) -> None:
        """Release all references to transactions.

        The JVM's proxy of this observer lives until a garbage collection of old objects, and would
        keep the objects of a batch alive until then.
        """
        self._before_commit = lambda: None
        self._transaction = self.next_transaction = self.failure = None

    class Java:
        """The Java interface, for py4j."""

        implements = (_OBSERVER,)


def _written_paths(log: Any, action: Any) -> Iterator[Any]:
    """Return the paths of the files that an action adds to a table: data, changes, vectors."""
    kind = action.getClass().getSimpleName()
    if kind in ("AddFile", "AddCDCFile"):
        yield action.absolutePath(log)
    vector = action.deletionVector() if kind == "AddFile" else None
    if vector is not None and vector.isOnDisk():
        yield vector.absolutePath(log.dataPath())


@contextmanager
def run_before_commit(
    spark: SparkSession, before_commit: Callable[[], None]
) -> Iterator[Callable[[CommitTransaction], None]]:
    """Call `before_commit` within every Delta transaction of this thread, right before its commit.

    An error in it is raised here, and nothing is committed.

    Yields a function that sets the transaction version of the next commit. With Delta's options
    txnAppId and txnVersion each write would read all transaction versions of the table, by Spark
    queries that take several times as long as a small write.
    """
    require_pinned_threads(spark)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    observers = java_object(spark, _OBSERVER)
    previous_observer = observers.getObserver()
    observer = _CommitObserver(spark, before_commit)
    observers.setObserver(observer)
    try:
        yield lambda numbered: setattr(observer, "next_transaction", numbered)
    except Exception as error:
        raise (observer.failure or error) from error
    finally:
        observers.setObserver(previous_observer)
        observer.clear()


def refuse_missing_files(spark: SparkSession) -> AbstractContextManager[object]:
    """Return a context that refuses each Delta commit of this thread whose files were deleted.

    For commits outside `commit_once`, such as a compaction, which would lose rows otherwise.

    Raises ConflictError; nothing is committed.
    """
    return run_before_commit(spark, lambda: None)


def _set_transaction_action(spark: SparkSession, app_id: str, txn_version: int) -> Any:
    """Return the action that sets the transaction version of an application id."""
    now = java_class(spark, "java.lang.System").currentTimeMillis()
    set_transaction = java_class(spark, "org.apache.spark.sql.delta.actions.SetTransaction")
    return set_transaction(app_id, txn_version, java_class(spark, "scala.Option").apply(now))


def touch_transaction(spark: SparkSession, path: str, app_id: str, txn_version: int) -> None:
    """Commit the transaction version of an application id again, without rows.

    An open transaction that has read the version of this id fails with a conflict.
    """
    actions = java_class(spark, "java.util.ArrayList")()
    actions.add(_set_transaction_action(spark, app_id, txn_version))
    # After a "manual update" Delta would compute the checksum of the table again.
    empty = java_object(spark, "org.apache.spark.sql.delta.DeltaOperations$EmptyCommit")
    converters = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
    # The commit takes its metadata from the active session of the thread.
    with active_session(spark):
        transaction = delta_log(spark, path).startTransaction()
        transaction.commit(converters.asScala(actions).toSeq(), empty)
