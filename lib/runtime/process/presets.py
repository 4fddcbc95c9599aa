"""Presets: settings of Spark and Delta for a kind of job, by name; each has a measured reason.

None of them touches what exactly once stands on: a test holds them against `PROMISED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Preset = Literal["small", "fresh"]

STATE = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
SNAPSHOT = "spark.databricks.delta.snapshotPartitions"
HEAP = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

PRESETS: Mapping[Preset, Mapping[str, str]] = {
    # State that fits the executors' memory twice: no store beside the heap to be written and read.
    "small": {STATE: HEAP},
    # Batches of some thousand rows: tasks, files and commits of state cost more than the rows do.
    "fresh": {STATE: HEAP, PARTITIONS: "1"},
}
"""What a preset sets, in place of conf/spark-defaults.conf; docs/benchmarks.md has the figures.

There is none for a cluster, whose cores are not known when the session is made and so are said by
`partitions`, and none for a backlog, which is a batch without state.
"""

PROMISED = (
    "spark.sql.extensions",
    "spark.sql.catalog.",
    "spark.delta.logStore.",
    "spark.databricks.delta.write.",
    "spark.databricks.delta.properties.",
    "spark.databricks.delta.retentionDurationCheck",
    "spark.sql.streaming.checkpoint",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.noDataMicroBatches",
    "spark.sql.streaming.statefulOperator.",
    "spark.sql.streaming.stateStore.commitValidation",
    "spark.sql.streaming.stateStore.rowChecksum",
    "spark.sql.ansi.",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.",
    "spark.sql.session.timeZone",
    "spark.redaction.",
)
"""How settings begin that the promise, or the meaning of a row, stands on: no preset sets one."""


def settings_of(preset: Preset | None) -> Mapping[str, str]:
    """Return the settings of a preset; none without one."""
    return {} if preset is None else PRESETS[preset]
