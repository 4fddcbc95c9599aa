"""Delta's log: what it says of a table, and a look right before a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..errors import TableError
from .session import jvm_session

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
        check_sum = self._snapshot.checksumOpt()
        if check_sum.isEmpty() or self.property(TRANSACTION_RETENTION) is not None:
            return None
        noted = check_sum.get().setTransactions()
        return None if noted.isEmpty() else noted.get()

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

    Costs a listing of the log when nothing has changed.
    """
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(jvm_session(spark), path)
    nothing = jvm.scala.Option.empty()
    snapshot = log.update(False, nothing, nothing)
    clusters = jvm.org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo
    return DeltaState(int(snapshot.version()), str(log.logPath().toString()), snapshot, clusters)


@dataclass(frozen=True)
class Numbered:
    """A number that a commit on a table gives to an application id.

    log_path: the table's log, as Delta names it.
    rows: called with how many rows the commit adds, before it is made; None where nobody asks.
    """

    log_path: str
    app_id: str
    number: int
    rows: Callable[[int], None] | None = None


class _AtTheCommit:
    """Delta's observer of a thread's transactions: looks right before what one does is committed.

    Delta has begun the transaction by then, so that a commit which another writer makes after the
    look is one that this transaction meets.
    """

    def __init__(self, jvm: Any, look: Callable[[], None]) -> None:
        self._jvm = jvm
        self._look = look
        self._begun: Any = None
        self.next_bears: Numbered | None = None
        self.failure: BaseException | None = None

    # The names are Delta's, which calls them.
    def createChild(self) -> _AtTheCommit:  # noqa: N802
        return self

    def startingTransaction(self, start: Any) -> Any:  # noqa: N802
        self._begun = start.apply()
        return self._begun

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        self._own(self._look)
        actions = prepare.apply()
        return self._own(lambda: self._with_number(actions))

    def _own(self, step: Callable[[], Any]) -> Any:
        """Take a step, and keep its failure: Delta hands it on as text."""
        try:
            return step()
        except BaseException as error:
            self.failure = error
            raise

    def _with_number(self, actions: Any) -> Any:
        """Return the actions of the commit that bears a number with it, and of others as they are.

        Delta may let a compaction follow in the same thread.
        """
        numbered, self.next_bears = self.next_bears, None
        if numbered is None:
            return actions
        log_path = str(self._begun.deltaLog().logPath().toString())
        if log_path != numbered.log_path:
            raise TableError(
                f"a commit on {log_path} came where batch {numbered.number} of {numbered.app_id} "
                f"was to be written to {numbered.log_path}.",
                "one commit, on the sink's own table.",
                "write other tables under steps of their own; nothing was written.",
            )
        if numbered.rows is not None:
            numbered.rows(_rows_added(actions))
        # As a transaction that has asked for the number: it meets a commit that gives another.
        self._begun.readTxn().addOne(numbered.app_id)
        return actions.appended(_number_of(self._jvm, numbered.app_id, numbered.number))

    def beginDoCommit(self) -> None:  # noqa: N802
        return None

    beginBackfill = beginPostCommit = transactionCommitted = beginDoCommit  # noqa: N815
    transactionAborted = advanceToNextThreadObserver = beginDoCommit  # noqa: N815

    def let_go(self) -> None:
        """Hold nothing of the transactions any more.

        Delta's proxy of this observer stays in the JVM until a collection of its old objects. What
        the observer holds of a batch would stay as long, on both sides.
        """
        self._look = lambda: None
        self._begun = self.next_bears = self.failure = None

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.delta.TransactionExecutionObserver",)


@contextmanager
def at_the_commit(
    spark: SparkSession, look: Callable[[], None]
) -> Iterator[Callable[[Numbered], None]]:
    """Call `look` within every Delta transaction of this thread, right before its commit.

    What it raises is raised here, and nothing is committed.

    Yields what lets the next commit bear a number. Delta's own options for it, txnAppId and
    txnVersion, let every write ask the table for all numbers, by Spark queries over its log that
    take several times as long as a small write.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    observers = getattr(getattr(delta, "TransactionExecutionObserver$"), "MODULE$")
    before = observers.getObserver()
    mine = _AtTheCommit(jvm, look)
    observers.setObserver(mine)
    try:
        yield lambda numbered: setattr(mine, "next_bears", numbered)
    except Exception as error:
        raise (mine.failure or error) from error
    finally:
        observers.setObserver(before)
        mine.let_go()


def _rows_added(actions: Any) -> int:
    """Return how many rows the files of a commit add, as their statistics have it."""
    each = (actions.apply(at) for at in range(actions.size()))
    files = (action for action in each if action.getClass().getSimpleName() == "AddFile")
    return sum(int(file.numLogicalRecords().get()) for file in files)


def _number_of(jvm: Any, app_id: str, number: int) -> Any:
    """Return the action by which a commit says the number of an application id."""
    now = jvm.scala.Option.apply(jvm.System.currentTimeMillis())
    return jvm.org.apache.spark.sql.delta.actions.SetTransaction(app_id, number, now)


def touch_transaction(spark: SparkSession, path: str, app_id: str, number: int) -> None:
    """Make a commit that says the number of an application id anew, and no more.

    A transaction that has read this id and is not committed yet meets it, and is refused.
    """
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    actions = jvm.java.util.ArrayList()
    actions.add(_number_of(jvm, app_id, number))
    begun = delta.DeltaLog.forTable(jvm_session(spark), path).startTransaction()
    # After a "manual update" Delta would work the table's check sum out anew.
    empty = getattr(getattr(delta, "DeltaOperations$EmptyCommit$"), "MODULE$")
    begun.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), empty)


def checkpoint_table(spark: SparkSession, path: str) -> int:
    """Write Delta's checkpoint of a table's newest version; return the version."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(jvm_session(spark), path)
    nothing = jvm.scala.Option.empty()
    snapshot = log.update(False, nothing, nothing)
    log.checkpoint(snapshot, nothing)
    return int(snapshot.version())


def forget_tables(spark: SparkSession) -> None:
    """Forget what the session knows of every table, as after a folder got another name."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
