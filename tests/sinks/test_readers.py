"""Every reader reads the values of every type, in every kind of column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.extreme_values import EXTREMES, column_name, extreme_rows
from tests.support.readers import assert_readers_agree
from tests.support.sink_batches import batch
from tidegate.delta.table_layout import TableLayout
from tidegate.jvm import with_settings
from tidegate.sinks import Append, Upsert

NAMES = [column_name(each) for each in EXTREMES]
UNSUITABLE = ("BINARY", "FLOAT", "DOUBLE")
"""Types that a layout refuses as partition columns."""
CLUSTERED = [
    ["date", "timestamp", "timestamp_ntz", "string"],
    ["double", "decimal_38_38", "bigint"],
]


def test_plain_and_nested_columns_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    struct = f"struct({', '.join(NAMES)})"
    rows = extreme_rows(spark).selectExpr(
        "*",
        f"struct({struct} inner) nested",
        f"array({struct}) listed",
        f"map(id, {struct}) mapped",
    )
    Append(str(tmp_path / "t")).write({"rows": rows}, batch(0))
    assert_readers_agree(spark, tmp_path / "t")


@pytest.mark.parametrize("columns", CLUSTERED, ids=str)
def test_columns_that_a_table_is_clustered_by_are_read_as_they_are(
    spark: SparkSession, tmp_path: Path, columns: list[str]
) -> None:
    sink = Append(str(tmp_path / "t"), layout=TableLayout(cluster_by=columns))
    sink.write({"rows": extreme_rows(spark)}, batch(0))
    assert_readers_agree(spark, tmp_path / "t")


def test_keys_that_rows_are_merged_by_are_read_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Upsert(str(tmp_path / "t"), keys=NAMES)
    for number in range(2):
        rows = extreme_rows(spark).withColumn("id", F.col("id") + number)
        sink.write({"rows": rows}, batch(number))
    assert_readers_agree(spark, tmp_path / "t")
    stored = spark.read.format("delta").load(str(tmp_path / "t")).select("id").collect()
    assert sorted(row.id for row in stored) == [*range(1, len(stored) + 1)]


def test_the_comparison_finds_a_time_that_another_reader_reads_otherwise(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = tmp_path_factory.mktemp("int96")
    with with_settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        rows = extreme_rows(spark, ["TIMESTAMP"])
        Append(str(table)).write({"rows": rows}, batch(0))
    with pytest.raises(AssertionError, match="delta-rs reads other rows than Spark"):
        assert_readers_agree(spark, table)
    with pytest.raises(AssertionError, match="DuckDB reads other rows than delta-rs"):
        assert_readers_agree(None, table)


def test_partition_columns_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    types = [each for each in EXTREMES if each not in UNSUITABLE]
    # Delta stores an empty text in a partition column as null.
    rows = extreme_rows(spark, types).where("string <> '' or string is null")
    layout = TableLayout(partition_by=[column_name(each) for each in types])
    Append(str(tmp_path / "t"), layout=layout).write({"rows": rows}, batch(0))
    assert_readers_agree(spark, tmp_path / "t")
