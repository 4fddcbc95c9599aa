"""SnapshotJoin: each batch is joined with one version of a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.sink_batches import batch, rows
from tidegate.errors import ArgumentError, ColumnError, TableError
from tidegate.joins import stream_table
from tidegate.sinks import Append, AppendUnique, FanOut
from tidegate.sinks.snapshot_join import SnapshotJoin
from tidegate.sketches import BloomTable

pytestmark = pytest.mark.slow


def joined(events: DataFrame, plans: DataFrame) -> DataFrame:
    return stream_table(events, plans, "user", how="left")


@pytest.mark.jobs
def test_each_batch_reads_one_version_of_the_table_and_records_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    plans, target = str(tmp_path / "plans"), str(tmp_path / "t")
    sink = SnapshotJoin(table=plans, join=joined, sink=Append(path=target))
    events = spark.createDataFrame([("a",), ("b",)], "user string")

    def planned(plan: str) -> None:
        table = spark.createDataFrame([("a", plan)], "user string, plan string")
        table.write.format("delta").mode("overwrite").save(plans)

    with pytest.raises(TableError, match="is not a Delta table"):
        sink.write({"rows": events}, batch(0))
    planned("free")
    assert sink.write({"rows": events}, batch(0)) == "written"
    planned("paid")
    planned("team")
    assert sink.write({"rows": events}, batch(1)) == "written"
    # A batch that runs again after a crash is not joined with a newer version.
    planned("none")
    assert sink.write({"rows": events}, batch(1)) == "skipped"
    written = {tuple(row) for row in rows(spark, target)}
    assert written == {("a", "free", 0), ("b", None, 0), ("a", "team", 2), ("b", None, 2)}
    for _, plan, version in written - {("b", None, 0), ("b", None, 2)}:
        version_read = spark.read.format("delta").option("versionAsOf", version).load(plans)
        assert [row.plan for row in version_read.collect()] == [plan]


def test_the_table_may_change_while_its_version_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    plans, target = str(tmp_path / "plans"), str(tmp_path / "t")
    spark.range(3).write.format("delta").save(plans)

    def while_another_writes(events: DataFrame, table: DataFrame) -> DataFrame:
        spark.range(10, 20).write.format("delta").mode("append").save(plans)
        return events.crossJoin(table)

    sink = SnapshotJoin(
        table=plans,
        join=while_another_writes,
        sink=Append(path=target),
        version_column="plans.version",
    )
    sink.write({"rows": spark.createDataFrame([("a",)], "user string")}, batch(0))
    assert sorted(map(tuple, rows(spark, target))) == [("a", number, 0) for number in range(3)]


def test_several_tables_and_a_duplicate_column_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    two = FanOut(Append("a"), other_sinks=[Append("b")])
    with pytest.raises(ArgumentError, match="with 2 tables"):
        SnapshotJoin(table="plans", join=joined, sink=two)
    keys_table = BloomTable(key="user", expected_items=1_000)
    three = AppendUnique("a", duplicates="b", filter_path="c", keys_table=keys_table)
    with pytest.raises(ArgumentError, match="with 3 tables"):
        SnapshotJoin(table="plans", join=joined, sink=three)
    spark.range(1).write.format("delta").save(str(tmp_path / "plans"))
    duplicate = SnapshotJoin(
        table=str(tmp_path / "plans"),
        join=lambda events, table: events.withColumn("Table_Version", F.lit(1)),
        sink=Append(path=str(tmp_path / "t")),
    )
    with pytest.raises(ColumnError, match="table_version"):
        duplicate.write({"rows": spark.range(1)}, batch(0))
