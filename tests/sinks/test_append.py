"""Append: each batch is written once, and schema changes are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.sink_batches import batch, commits, rows
from tidegate.commit.delta_commit import commit_once
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import AccountingError, TableError, TableMismatchError
from tidegate.sinks import Append, SideOutputTable

pytestmark = pytest.mark.slow


def test_a_batch_is_written_once_and_its_replay_is_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, frame = str(tmp_path / "t"), spark.range(3)
    sink = Append(path=path)
    assert sink.write({"rows": frame}, batch(0, rows_in=5, dead_letters=2), rows_out=3) == "written"
    assert sink.write({"rows": frame}, batch(1)) == "written"
    assert [sink.write({"rows": frame}, batch(n)) for n in (0, 1)] == ["skipped", "skipped"]
    assert [row.id for row in rows(spark, path, "id")] == [0, 0, 1, 1, 2, 2]
    stamp = json.loads(commits(path)[0]["userMetadata"])
    assert stamp == {
        "format": "tidegate commit/1", "job": "j", "query": "q", "run": "r", "batch": 0,
        "output": "append", "offsets_sha256": "plan-0", "end_offsets": {"t": {"0": 9}},
        "rows": {"in": 5, "dead_letters": 2, "late": 0, "out": 3},
    }  # fmt: skip


def test_the_same_number_with_other_offsets_is_refused_and_nothing_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        Append(path=path).write({"rows": spark.range(1)}, batch(number))
    with pytest.raises(
        TableMismatchError, match=r"batch 1 .*plan-1 .*the checkpoint plans offsets other-1"
    ):
        Append(path=path).write({"rows": spark.range(5)}, batch(1, "other"))
    assert len(rows(spark, path)) == 3


def test_a_transaction_without_a_stamp_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    foreign = (
        spark.range(1)
        .write.format("delta")
        .option("txnAppId", "j/q/append")
        .option("txnVersion", "4")
    )
    foreign.save(path)
    with pytest.raises(
        TableMismatchError, match="its log does not have the metadata of that commit"
    ):
        Append(path=path).write({"rows": spark.range(1)}, batch(4))
    assert len(rows(spark, path)) == 1


def test_a_write_without_a_commit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableMismatchError, match="not in the log"):
        commit_once(spark, str(tmp_path / "t"), batch(0), "append", lambda options: None, {})


def test_two_outputs_may_share_a_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert Append(path=path).write({"rows": spark.range(1)}, batch(0)) == "written"
    assert Append(path=path, output="second").write({"rows": spark.range(1)}, batch(0)) == "written"
    assert len(rows(spark, path)) == 2


def test_a_table_that_expires_its_transactions_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    name = "delta.setTransactionRetentionDuration"
    spark.range(1).write.format("delta").option(name, "interval 1 days").save(path)
    with pytest.raises(TableError, match="forgets"):
        Append(path=path).write({"rows": spark.range(1)}, batch(0))


def test_changed_columns_are_named_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(1).select(
        "id", F.lit("a").alias("page"), F.struct(F.lit(1).alias("x")).alias("s")
    )
    Append(path=path, layout=TableLayout(["page"])).write({"rows": frame}, batch(0))
    other = frame.select(F.col("id").cast("string"), F.col("s"), F.lit(1).alias("new"))
    with pytest.raises(
        TableError, match="page is missing; new is new; id was bigint and is string"
    ):
        Append(path=path).write({"rows": other}, batch(1))
    deeper = frame.withColumn("s", F.struct(F.lit("1").alias("x")))
    with pytest.raises(TableError, match="s was struct<x:int> and is struct<x:string>"):
        Append(path=path).write({"rows": deeper}, batch(1))
    with pytest.raises(TableError, match="invalid partition_by"):
        Append(path=path, layout=TableLayout(["id"])).write({"rows": frame}, batch(1))
    wider = frame.withColumn("new", F.lit(1))
    assert Append(path=path, evolve=True).write({"rows": wider}, batch(1)) == "written"
    assert rows(spark, path, F.col("new").asc_nulls_first())[1].new == 1


def test_the_table_does_not_inherit_the_stream_s_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, key = str(tmp_path / "t"), "spark.watermarkDelayMs"
    time = F.lit(datetime(2024, 1, 1, tzinfo=UTC)).alias("event_time", metadata={key: 10})
    Append(path=path).write({"rows": spark.range(1).select(time)}, batch(0))
    assert key not in spark.read.format("delta").load(path).schema["event_time"].metadata


def test_the_number_of_side_output_rows_must_match_the_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "dead")
    with pytest.raises(AccountingError, match="counted 4 rows of dead_letters, but 3 were to be"):
        SideOutputTable(path=path).write(spark.range(3), batch(0), expected=4)
    assert not list((tmp_path / "dead").glob("_delta_log/*.json"))
    assert SideOutputTable(path=path).write(spark.range(3), batch(0), expected=3) == "written"
    assert (
        SideOutputTable(path=path, output="late").write(spark.range(2), batch(0), expected=2)
        == "written"
    )
    assert len(rows(spark, path)) == 5
