"""What Spark read while something ran: files and rows of each Delta table, by its own metrics of every scan."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

_PLACE = re.compile(r"(?:Delta|Tahoe\w*)FileIndex[^\[]*\[(?:file:)?([^\],]+)")
_LENGTH = "spark.sql.maxMetadataStringLength"


@dataclass
class Read:
    """Files opened and rows that came out of them, over all scans of a table."""

    files: int = 0
    rows: int = 0
    scans: list[tuple[int, int]] = field(default_factory=list)


class Scans:
    """Collect what is read inside a `with` block, by the name of the table's folder.

    A table that is read three times counts three times. Log and statistics of the tables are not counted.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._session = spark, spark._jsparkSession
        self.tables: dict[str, Read] = defaultdict(Read)

    def __enter__(self) -> Scans:
        # Spark shortens the place that a scan tells of to 100 letters.
        self._spark.conf.set(_LENGTH, "10000")
        self._first = self._executions()
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.conf.unset(_LENGTH)
        store, seen = self._session.sharedState().statusStore(), set()
        self._session.sparkContext().listenerBus().waitUntilEmpty()
        for execution in range(self._first, self._executions()):
            values = store.executionMetrics(execution)
            nodes = store.planGraph(execution).allNodes()
            for node in (nodes.apply(at) for at in range(nodes.size())):
                place = _PLACE.search(node.desc())
                if not node.name().startswith("Scan parquet") or place is None:
                    continue
                found = {}
                for metric in (node.metrics().apply(at) for at in range(node.metrics().size())):
                    value = values.get(metric.accumulatorId())
                    if value.isDefined() and metric.accumulatorId() not in seen:
                        seen.add(metric.accumulatorId())
                        found[metric.name()] = _number(value.get())
                files, rows = found.get("number of files read", 0), found.get("number of output rows", 0)
                read = self.tables[Path(place.group(1)).name]
                read.files += files
                read.rows += rows
                read.scans.append((files, rows))

    def _executions(self) -> int:
        self._session.sparkContext().listenerBus().waitUntilEmpty()
        executions = self._session.sharedState().statusStore().executionsList()
        return 1 + max((executions.apply(at).executionId() for at in range(executions.size())), default=-1)


def _number(text: str) -> int:
    """Read a metric as Spark shows it."""
    return int(text.replace(",", "")) if text.replace(",", "").isdigit() else 0
