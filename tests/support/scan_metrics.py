"""The files and rows that Spark reads from each Delta table, by Spark's metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_TABLE_LOCATION = re.compile(r"(?:Delta|Tahoe\w*)FileIndex[^\[]*\[(?:file:)?([^\],]+)")
_METADATA_LENGTH_KEY = "spark.sql.maxMetadataStringLength"


@dataclass
class TableReads:
    """Files and output rows of all scans of a table."""

    files: int = 0
    rows: int = 0
    scans: list[tuple[int, int]] = field(default_factory=list)


class ScanRecorder:
    """A context manager that records reads inside its block, by the name of the table's folder.

    Each scan counts. Reads of table logs and statistics do not count.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.tables: dict[str, TableReads] = defaultdict(TableReads)

    def __enter__(self) -> ScanRecorder:
        # By default Spark truncates the location in scan metadata to 100 characters.
        self._spark.conf.set(_METADATA_LENGTH_KEY, "10000")
        self._first_execution = count_executions(self._spark)
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.conf.unset(_METADATA_LENGTH_KEY)
        for description, metrics in parquet_scan_metrics(self._spark, self._first_execution):
            location = _TABLE_LOCATION.search(description)
            if location is None:
                continue
            files = metrics.get("number of files read", 0)
            rows = metrics.get("number of output rows", 0)
            table_reads = self.tables[Path(location.group(1)).name]
            table_reads.files += files
            table_reads.rows += rows
            table_reads.scans.append((files, rows))


def count_executions(spark: SparkSession) -> int:
    """Return the number of queries of the session, after all of them have been reported."""
    session: Any = spark._jsparkSession
    session.sparkContext().listenerBus().waitUntilEmpty()
    entries = session.sharedState().statusStore().executionsList()
    return 1 + max((entries.apply(at).executionId() for at in range(entries.size())), default=-1)


def parquet_scan_metrics(
    spark: SparkSession, first_execution: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """Return Spark's description and the metrics of each Parquet scan since `first_execution`.

    A metric that several executions share is counted with the first one.
    """
    jvm_session: Any = spark._jsparkSession
    store = jvm_session.sharedState().statusStore()
    seen: set[int] = set()
    for execution in range(first_execution, count_executions(spark)):
        values = store.executionMetrics(execution)
        nodes = store.planGraph(execution).allNodes()
        for node in (nodes.apply(at) for at in range(nodes.size())):
            if node.name().startswith("Scan parquet"):
                yield node.desc(), _scan_metrics(node, values, seen)


def _scan_metrics(node: Any, values: Any, seen: set[int]) -> dict[str, int]:
    metrics = {}
    for metric in (node.metrics().apply(at) for at in range(node.metrics().size())):
        number = metric.accumulatorId()
        value = values.get(number)
        if value.isDefined() and number not in seen:
            seen.add(number)
            digits = value.get().replace(",", "")
            metrics[metric.name()] = int(digits) if digits.isdigit() else 0
    return metrics
