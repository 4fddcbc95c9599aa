"""Presets, named settings of Spark and Delta for a kind of job, and the cores of a local master.

No preset changes a setting that exactly-once semantics depend on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from ..columns import require_choice

Preset = Literal["small", "fresh"]

STATE_STORE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
COUNTED_ROCKSDB_ROWS = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
HEAP_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

PRESETS: Mapping[Preset, Mapping[str, str]] = {
    # For state that fits twice into the executors' memory: no RocksDB reads and writes.
    "small": {STATE_STORE_PROVIDER: HEAP_STATE_STORE},
    # For batches of a few thousand rows: tasks, files and state commits dominate the cost.
    "fresh": {STATE_STORE_PROVIDER: HEAP_STATE_STORE, SHUFFLE_PARTITIONS: "1"},
}
"""The settings of each preset, which override conf/spark-defaults.conf; measured in
docs/project/benchmarks.md.

A cluster needs no preset but `partitions`, because its cores are not known when the session is
created; a backfill needs none, because it is a batch without state.
"""


def preset_settings(preset: Preset | None) -> Mapping[str, str]:
    """Return the settings of a preset; none for None. Raises ArgumentError for an unknown one.

    >>> preset_settings("fresh")["spark.sql.shuffle.partitions"]
    '1'
    """
    if preset is None:
        return {}
    require_choice(preset, "preset", Preset)
    return PRESETS[preset]


def local_cores(master: str) -> int:
    """Return the cores of a local master, and 0 for a cluster.

    >>> local_cores("local[2]"), local_cores("local"), local_cores("spark://host:7077")
    (2, 1, 0)
    """
    if not master.startswith("local") or master.startswith("local-cluster"):
        return 0
    number = master.removeprefix("local").strip("[]").split(",")[0]
    return int(number) if number.isdigit() else 1 if not number else len(os.sched_getaffinity(0))
