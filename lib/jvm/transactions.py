"""Delta's transactions: a look right before one is committed, and the number that it bears."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from ..errors import TableError
from .delta import delta_log
from .files import delete_files
from .session import java_class, java_object

_OBSERVER = "org.apache.spark.sql.delta.TransactionExecutionObserver"


@dataclass(frozen=True)
class Numbered:
    """A number that a commit on a table gives to an application id.

    log_path: the table's log, as Delta names it.
    rows: called with how many rows the commit adds, before anything else is asked; None where
        nobody asks. Where it raises, the commit's files are deleted.
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

    def __init__(self, spark: SparkSession, look: Callable[[], None]) -> None:
        self._spark = spark
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
        actions = prepare.apply()
        return self._own(lambda: self._looked_at(actions))

    def _own(self, step: Callable[[], Any]) -> Any:
        """Take a step, and keep its failure: Delta hands it on as text."""
        try:
            return step()
        except BaseException as error:
            self.failure = error
            raise

    def _looked_at(self, actions: Any) -> Any:
        """Return the actions of the commit that bears a number with it, and of others as they are.

        Delta may let a compaction follow in the same thread.
        """
        numbered, self.next_bears = self.next_bears, None
        if numbered is None:
            self._look()
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
            self._counted(actions, numbered.rows)
        self._look()
        # As a transaction that has asked for the number: it meets a commit that gives another.
        self._begun.readTxn().addOne(numbered.app_id)
        return actions.appended(_number_of(self._spark, numbered.app_id, numbered.number))

    def _counted(self, actions: Any, rows: Callable[[int], None]) -> None:
        files = _files_added(actions)
        try:
            rows(sum(int(file.numLogicalRecords().get()) for file in files))
        except BaseException:
            # Else each start of a job that is refused would leave the files of a batch behind.
            log = self._begun.deltaLog()
            delete_files(self._spark, [file.absolutePath(log) for file in files])
            raise

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

        implements = (_OBSERVER,)


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
    observers = java_object(spark, _OBSERVER)
    before = observers.getObserver()
    mine = _AtTheCommit(spark, look)
    observers.setObserver(mine)
    try:
        yield lambda numbered: setattr(mine, "next_bears", numbered)
    except Exception as error:
        raise (mine.failure or error) from error
    finally:
        observers.setObserver(before)
        mine.let_go()


def _files_added(actions: Any) -> list[Any]:
    """Return the files that a commit adds."""
    each = (actions.apply(at) for at in range(actions.size()))
    return [action for action in each if action.getClass().getSimpleName() == "AddFile"]


def _number_of(spark: SparkSession, app_id: str, number: int) -> Any:
    """Return the action by which a commit says the number of an application id."""
    now = java_class(spark, "java.lang.System").currentTimeMillis()
    set_to = java_class(spark, "org.apache.spark.sql.delta.actions.SetTransaction")
    return set_to(app_id, number, java_class(spark, "scala.Option").apply(now))


def touch_transaction(spark: SparkSession, path: str, app_id: str, number: int) -> None:
    """Make a commit that says the number of an application id anew, and no more.

    A transaction that has read this id and is not committed yet meets it, and is refused.
    """
    actions = java_class(spark, "java.util.ArrayList")()
    actions.add(_number_of(spark, app_id, number))
    begun = delta_log(spark, path).startTransaction()
    # After a "manual update" Delta would work the table's check sum out anew.
    empty = java_object(spark, "org.apache.spark.sql.delta.DeltaOperations$EmptyCommit")
    converters = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
    begun.commit(converters.asScala(actions).toSeq(), empty)
