"""Files that another program deletes before their commit are written again, never committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.sink_batches import as_another_writer, batch, rows
from tidegate.commit.concurrent import start_pending_write
from tidegate.delta.table_layout import TableLayout
from tidegate.engine.maintenance import vacuum
from tidegate.errors import ConflictError
from tidegate.jvm import copy_session, with_settings
from tidegate.sinks import Append, Upsert
from tidegate.sinks.base import TableSink

pytestmark = pytest.mark.jobs

CHANGE_DATA = TableLayout(properties={"delta.enableChangeDataFeed": True})
DELETION_VECTORS = TableLayout(properties={"delta.enableDeletionVectors": True})
NO_RETENTION = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta lists the files in 10,000 tasks by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


class Vacuum:
    """A program that vacuums a table without retention before the next commits."""

    def __init__(self, spark: SparkSession, path: str, runs: int) -> None:
        # Its commits must not have the metadata that the sink sets in its own session.
        self.spark = copy_session(spark)
        for name, value in NO_RETENTION.items():
            self.spark.conf.set(name, value)
        self.path, self.remaining_runs = path, runs

    def run(self) -> None:
        if self.remaining_runs:
            self.remaining_runs -= 1
            command = f"VACUUM delta.`{self.path}` RETAIN 0 HOURS"
            as_another_writer(lambda: self.spark.sql(command))


@pytest.mark.parametrize("kind", ["append", "deletion_vectors", "changes"])
def test_files_that_a_vacuum_without_retention_deletes_before_the_commit_are_written_again(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "table")
    sinks: dict[str, TableSink] = {
        "append": Append(path),
        "deletion_vectors": Upsert(path, keys=["id"], layout=DELETION_VECTORS),
        "changes": Upsert(path, keys=["id"], layout=CHANGE_DATA),
    }
    sink = sinks[kind]
    numbers = spark.range(6)
    sink.write({"rows": numbers.where("id < 3")}, batch(0))
    other = Vacuum(spark, path, runs=1)
    with with_settings(spark, NO_RETENTION):
        context = replace(batch(1), wait_for_prior_commits=other.run)
        first_id = 3 if isinstance(sink, Append) else 2
        assert sink.write({"rows": numbers.where(f"id >= {first_id}")}, context) == "written"
    assert other.remaining_runs == 0
    assert [row["id"] for row in rows(spark, path, "id")] == [0, 1, 2, 3, 4, 5]
    if kind == "changes":
        changes = spark.read.option("readChangeFeed", True).option("startingVersion", 0)
        inserted = changes.format("delta").load(path).where("_commit_version > 1")
        assert sorted(row["id"] for row in inserted.collect()) == [3, 4, 5]


def test_a_pending_write_whose_files_are_deleted_is_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "table"))
    sink.write({"rows": spark.range(3)}, batch(0))
    other = Vacuum(spark, sink.path, runs=1)
    with with_settings(spark, NO_RETENTION):
        later = spark.range(3, 6)
        with start_pending_write(
            lambda context: sink.write({"rows": later}, context), batch(1), spark
        ) as (pending_write, commit):
            assert pending_write.wait_for_rows() == 3
            other.run()
            assert commit(batch(1)) == "written"
    assert [row["id"] for row in rows(spark, sink.path, "id")] == [0, 1, 2, 3, 4, 5]


def test_a_batch_whose_files_are_deleted_every_time_is_not_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "table"))
    sink.write({"rows": spark.range(3)}, batch(0))
    context = replace(batch(1), wait_for_prior_commits=Vacuum(spark, sink.path, runs=99).run)
    with (
        with_settings(spark, NO_RETENTION),
        pytest.raises(ConflictError, match=r"^files of a batch were deleted before") as error,
    ):
        sink.write({"rows": spark.range(3, 6)}, context)
    assert "VACUUM" in error.value.detail
    assert [row["id"] for row in rows(spark, sink.path, "id")] == [0, 1, 2]
    assert sink.write({"rows": spark.range(3, 6)}, batch(1)) == "written"
    vacuum(spark, sink.path)
    assert len(rows(spark, sink.path)) == 6
