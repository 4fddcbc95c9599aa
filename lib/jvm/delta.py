"""Delta's log: what it says of a table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from .files import Folder
from .session import java_class, jvm_session

_LOG = "org.apache.spark.sql.delta.DeltaLog"
_CLUSTERS = "org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo"

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
        """The table's folder, as its file system names it."""
        return self.log_path.rpartition("/")[0]

    def transaction(self, app_id: str) -> int | None:
        """Return the last transaction number of an application id; None where it never wrote."""
        return self.transactions().get(app_id)

    def transactions(self) -> dict[str, int]:
        """Return the last transaction number of every application id that the table has.

        They stand in the check sum that Delta writes beside a commit. Where that is missing, and
        where the table forgets numbers after some time, Delta works them out from the log by two
        Spark queries, once for each version.
        """
        noted = self._noted_transactions()
        said = self._snapshot.setTransactions() if noted is None else noted
        each = (said.apply(at) for at in range(said.size()))
        return {str(one.appId()): int(one.version()) for one in each}

    def _noted_transactions(self) -> Any:
        check_sum = self._check_sum()
        if check_sum is None or self.property(TRANSACTION_RETENTION) is not None:
            return None
        noted = check_sum.setTransactions()
        return None if noted.isEmpty() else noted.get()

    def _check_sum(self) -> Any:
        """Return what Delta has written beside the commit; None where that is missing."""
        found = self._snapshot.checksumOpt()
        return None if found.isEmpty() else found.get()

    def table_id(self) -> str:
        """Return the id that the table got when it was made."""
        return str(self._snapshot.metadata().id())

    def schema(self) -> StructType:
        """Return the table's columns."""
        return StructType.fromJson(json.loads(self._snapshot.schema().json()))

    def properties(self) -> dict[str, str]:
        """Return the table's properties."""
        found = self._snapshot.metadata().configuration().iterator()
        pairs = {}
        while found.hasNext():
            pair = found.next()
            pairs[str(pair._1())] = str(pair._2())
        return pairs

    def clustering_columns(self) -> list[str]:
        """Return the columns by which Delta clusters the table, fields of structs by a dot."""
        found = self._clusters.extractLogicalNames(self._snapshot)
        return [str(found.apply(i)) for i in range(found.size())]

    def property(self, name: str) -> str | None:
        """Return one of the table's properties; None where it is not set."""
        found = self._snapshot.metadata().configuration().get(name)
        return None if found.isEmpty() else str(found.get())

    def size(self) -> int:
        """Return how many bytes the table's files have, those that it no longer needs apart.

        It stands in the check sum; where that is missing a Spark query tells.
        """
        check_sum = self._check_sum()
        told = self._snapshot.sizeInBytes() if check_sum is None else check_sum.tableSizeBytes()
        return int(told)

    def is_same(self, other: DeltaState) -> bool:
        """Return whether nothing was written between this look at the table and another one.

        Delta holds a version's state until it finds a newer one, or another commit in its place.
        """
        return bool(self._snapshot.equals(other._snapshot))

    def keeps_changes(self) -> bool:
        """Return whether the table records what its commits change, row by row."""
        return (self.property(CHANGE_FEED) or "").lower() == "true"

    def has_vectors(self) -> bool:
        """Return whether files hold rows that are marked as deleted; a Spark job."""
        found = self._snapshot.numDeletionVectorsOpt()
        return found.isEmpty() or int(found.get()) > 0

    def partition_columns(self) -> list[str]:
        """Return the columns by which the table's files are partitioned."""
        columns = self._snapshot.metadata().partitionColumns()
        return [columns.apply(i) for i in range(columns.size())]


def delta_state(spark: SparkSession, path: str) -> DeltaState:
    """Read a table's log up to its newest version.

    Where nothing has changed it costs a look at two files.
    """
    log = delta_log(spark, path)
    snapshot = _newest(spark, log)
    clusters = java_class(spark, _CLUSTERS)
    return DeltaState(int(snapshot.version()), str(log.logPath().toString()), snapshot, clusters)


def checkpoint_table(spark: SparkSession, path: str) -> int:
    """Write Delta's checkpoint of a table's newest version; return the version."""
    log = delta_log(spark, path)
    snapshot = _newest(spark, log)
    log.checkpoint(snapshot, java_class(spark, "scala.Option").empty())
    return int(snapshot.version())


def forget_tables(spark: SparkSession) -> None:
    """Forget what the session knows of every table, as after a folder got another name."""
    java_class(spark, _LOG).clearCache()


def commit_file(version: int) -> str:
    """Return the name of a version's commit in a table's log."""
    return f"{version:020d}.json"


def delta_log(spark: SparkSession, path: str) -> Any:
    """Return Delta's own log of a table, as far as it has been read."""
    return java_class(spark, _LOG).forTable(jvm_session(spark), path)


def _newest(spark: SparkSession, log: Any) -> Any:
    known = log.unsafeVolatileSnapshot()
    if _is_newest(spark, log, known):
        return known
    nothing = java_class(spark, "scala.Option").empty()
    return log.update(False, nothing, nothing)


def _is_newest(spark: SparkSession, log: Any, known: Any) -> bool:
    """Return whether a version's commit is there as it was, and none after it.

    False where two files of the log do not say so. Delta lists all of the log, in which each commit
    of thirty days has a file or more.
    """
    version = int(known.version())
    elsewhere = known.isCatalogOwned() or known.tableCommitCoordinatorClientOpt().isDefined()
    if version < 0 or elsewhere:
        return False
    seen = int(known.logSegment().lastCommitFileModificationTimestamp())
    try:
        folder = Folder(spark, str(log.logPath().toString()))
        written = folder.modified(commit_file(version))
        return written == seen and folder.modified(commit_file(version + 1)) is None
    except OSError:
        return False
