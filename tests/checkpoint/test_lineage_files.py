"""The lineage files of a checkpoint on a disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.driver_lease import DriverLease


def test_a_lineage_file_is_replaced_without_a_moment_of_absence(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = LineageFiles(spark, str(tmp_path / "checkpoint"))
    lease = DriverLease.acquire(files, CheckpointLineage(job="j"), {})

    def write() -> None:
        for _ in range(500):
            files.write(lease.lineage)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            lease.require_newest_epoch()
        writing.result()
    assert files.read() == lease.lineage
