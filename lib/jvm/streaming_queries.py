"""Observed counts, scans and cached rows of queries in the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..versions import spark_version
from .spark_internals import jvm_session

_MAX_PARTITIONS = 2**31 - 1


def observed_metrics(query: StreamingQuery, name: str) -> dict[str, Any] | None:
    """Return the result of `observe(name, ...)` in the current batch; None before an action.

    Call it inside foreachBatch, after an action on the batch and before the commits. Spark adds up
    the counts of every finished task, so a stage that ran twice after the loss of an executor
    counts twice: compare the counts with the offsets. Observe numbers and text, not timestamps.
    """
    execution = _jvm_query(query).lastExecution()
    row = None if execution is None else execution.observedMetrics().get(name)
    if row is None or row.isEmpty():
        return None
    values = row.get()
    return {field: values.get(at) for at, field in enumerate(values.schema().fieldNames())}


def rows_dropped_by_watermark(query: StreamingQuery) -> int:
    """Return the number of rows that stateful operators have dropped as late in the current batch.

    Call it where `observed_metrics` is called. An operator can group or multiply rows before it
    counts, so the number shows whether rows were dropped, not how many rows of the source.
    """
    execution = _jvm_query(query).lastExecution()
    dropped = 0
    for node in () if execution is None else _plan_nodes(execution.executedPlan()):
        metric = node.metrics().get("numRowsDroppedByWatermark")
        if metric.isDefined():
            dropped += int(metric.get().value())
    return dropped


def read_latest_source_offsets(query: StreamingQuery) -> None:
    """Make the Kafka sources of the running batch read their latest offsets, with Spark 4.1.

    Spark 4.1 reports the lag of a source after each batch, and fails if the source has not read its
    latest offsets before (SPARK-55271). That is so in the first batch after a restart, whose
    offsets an earlier run has planned. Other versions of Spark do not need it.
    """
    if spark_version() != "4.1":
        return
    execution = _jvm_query(query).lastExecution()
    for node in _plan_nodes(execution.executedPlan()):
        if node.getClass().getSimpleName() == "MicroBatchScanExec":
            stream = node.stream()
            if stream.getClass().getName().endswith(".KafkaMicroBatchStream"):
                stream.latestOffset(node.start(), stream.getDefaultReadLimit())


def _plan_nodes(plan: Any) -> Iterator[Any]:
    unvisited = [plan]
    while unvisited:
        node = unvisited.pop()
        yield node
        children = node.children()
        unvisited += [children.apply(at) for at in range(children.size())]


def _jvm_query(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


@contextmanager
def pause_between_batches(query: StreamingQuery) -> Iterator[None]:
    """Prevent a query from planning a batch during the block.

    Spark holds this lock while it asks all sources for new rows, so every source sees the effects
    of the block in the same batch.
    """
    lock = _jvm_query(query).awaitProgressLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def without_ordering(frame: DataFrame) -> DataFrame:
    """Return the frame of a micro-batch without an order that Spark knows of.

    After a sort aggregate, such as `last` of a text, the order names columns of the streaming plan
    that the frame does not have. Spark 4.2 then fails to cache the frame ("key not found").
    """
    is_ordered = not frame._jdf.queryExecution().analyzed().outputOrdering().isEmpty()
    return frame.coalesce(_MAX_PARTITIONS) if is_ordered else frame


def release_checkpointed_rows(frame: DataFrame) -> None:
    """Release the rows of a frame of `localCheckpoint`; it cannot be read afterwards."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


def has_all_checkpointed_rows(frame: DataFrame) -> bool:
    """Return whether all rows of a frame of `localCheckpoint` are still available.

    The loss of an executor loses its rows, which cannot be recomputed.
    """
    rows = frame._jdf.queryExecution().analyzed().rdd()
    stored_rdds = jvm_session(frame.sparkSession).sparkContext().getRDDStorageInfo()
    cached_partitions = {int(each.id()): int(each.numCachedPartitions()) for each in stored_rdds}
    return cached_partitions.get(int(rows.id()), -1) == int(rows.getNumPartitions())


def count_lost_executors(spark: SparkSession) -> int:
    """Return the number of removed executors, both lost and released ones.

    Spark retains the last `spark.ui.retainedDeadExecutors` of them.
    """
    store = jvm_session(spark).sparkContext().statusStore()
    return int(store.executorList(False).size() - store.executorList(True).size())
