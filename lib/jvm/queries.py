"""A query in the JVM: what it has counted, read and kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .session import jvm_session


def observed(query: StreamingQuery, name: str) -> dict[str, Any] | None:
    """Return what `observe(name, ...)` counted in the batch that runs now; None before an action.

    To be asked inside foreachBatch, after an action on the batch and before anything is committed.
    Spark adds up the counts of every task that ended: a stage that ran twice after a lost executor
    counts twice, so these numbers are to be checked against the offsets, never trusted alone.
    Observe numbers and text only, no timestamps.
    """
    execution = _jvm_query(query).lastExecution()
    if execution is None:
        return None
    row = execution.observedMetrics().get(name)
    if row.isEmpty():
        return None
    values = row.get()
    return {field: values.get(at) for at, field in enumerate(values.schema().fieldNames())}


def dropped_behind_watermark(query: StreamingQuery) -> int:
    """Return how many rows the stateful operators have left out as late in the batch that runs now.

    To be asked where `observed` is. An operator may have grouped the rows before it counts, or have
    made several of one: the number says whether rows were dropped, and not how many of the source.
    """
    execution = _jvm_query(query).lastExecution()
    if execution is None:
        return 0
    dropped = 0
    ahead = [execution.executedPlan()]
    while ahead:
        node = ahead.pop()
        found = node.metrics().get("numRowsDroppedByWatermark")
        if found.isDefined():
            dropped += int(found.get().value())
        children = node.children()
        ahead += [children.apply(at) for at in range(children.size())]
    return dropped


def _jvm_query(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


@contextmanager
def between_batches(query: StreamingQuery) -> Iterator[None]:
    """Keep a query from looking for new rows while the block runs.

    The lock is the one under which Spark asks all sources of the query for what is new, one after
    another: what the block does, each source sees before the same batch.
    """
    lock = _jvm_query(query).awaitProgressLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def release(frame: DataFrame) -> None:
    """Free the rows of a frame that `localCheckpoint` gave; it cannot be read again."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


def is_kept(frame: DataFrame) -> bool:
    """Return whether all rows of a frame that `localCheckpoint` gave are still there.

    They are lost with an executor that held some of them, and cannot be computed anew.
    """
    rows = frame._jdf.queryExecution().analyzed().rdd()
    each_kept = jvm_session(frame.sparkSession).sparkContext().getRDDStorageInfo()
    parts = {int(each.id()): int(each.numCachedPartitions()) for each in each_kept}
    return parts.get(int(rows.id()), -1) == int(rows.getNumPartitions())


def lost_executors(spark: SparkSession) -> int:
    """Return how many executors of the application are gone; those that were let go count too.

    Spark remembers the last of them, as many as `spark.ui.retainedDeadExecutors` says.
    """
    store = jvm_session(spark).sparkContext().statusStore()
    return int(store.executorList(False).size() - store.executorList(True).size())


def executions(spark: SparkSession) -> int:
    """Return how many queries the session has executed, once all of them have been reported."""
    session = jvm_session(spark)
    session.sparkContext().listenerBus().waitUntilEmpty()
    found = session.sharedState().statusStore().executionsList()
    return 1 + max((found.apply(at).executionId() for at in range(found.size())), default=-1)


def scans(spark: SparkSession, first: int) -> Iterator[tuple[str, dict[str, int]]]:
    """Return what each scan of Parquet files since the execution `first` says of itself.

    A pair for each scan: Spark's description, and the scan's metrics by name. A metric that several
    executions show is counted with the first of them.
    """
    store = jvm_session(spark).sharedState().statusStore()
    seen: set[int] = set()
    for execution in range(first, executions(spark)):
        values = store.executionMetrics(execution)
        nodes = store.planGraph(execution).allNodes()
        for node in (nodes.apply(at) for at in range(nodes.size())):
            if node.name().startswith("Scan parquet"):
                yield node.desc(), _metrics(node, values, seen)


def _metrics(node: Any, values: Any, seen: set[int]) -> dict[str, int]:
    found = {}
    for metric in (node.metrics().apply(at) for at in range(node.metrics().size())):
        number = metric.accumulatorId()
        value = values.get(number)
        if value.isDefined() and number not in seen:
            seen.add(number)
            digits = value.get().replace(",", "")
            found[metric.name()] = int(digits) if digits.isdigit() else 0
    return found
