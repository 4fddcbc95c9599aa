"""How a table is laid out: from its first commit on, and compared with what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable as SecondReader
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import ColumnError, ColumnTypeError, TableError
from tidegate.jvm import delta_state
from tidegate.sinks import Append, Layout, SideTable, Upsert

from .batches import batch, commits, rows

pytestmark = pytest.mark.slow
FEED = {"delta.enableChangeDataFeed": True}


def views(spark: SparkSession, n: int = 1) -> DataFrame:
    return spark.sql(
        f"select '/a' page, {n}L n, named_struct('start', timestamp '2026-01-01') window, "
        "0.5D share, X'00' bytes"
    )


def test_a_clustered_table_takes_its_batches_once_and_a_second_engine_reads_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "a table's")
    layout = Layout(cluster_by=["window.start", "page"], properties=FEED)
    sink = Upsert(path, keys=["page"], layout=layout)
    assert sink.write({"rows": views(spark)}, batch(0)) == "written"
    state = delta_state(spark, path)
    assert state.clustering_columns() == ["window.start", "page"]
    assert state.property("delta.enableChangeDataFeed") == "true"
    assert [info["operation"] for info in commits(path)] == ["CREATE TABLE", "WRITE"]
    assert sink.write({"rows": views(spark, 2)}, batch(1)) == "written"
    assert [sink.write({"rows": views(spark)}, batch(n)) for n in (0, 1)] == ["skipped"] * 2
    assert [row.n for row in rows(spark, path)] == [2]
    assert SecondReader(path).to_pyarrow_table()["n"].to_pylist() == [2]
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert delta_state(spark, path).clustering_columns() == ["window.start", "page"]


def test_a_table_that_a_crash_left_without_rows_is_gone_on_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    layout = Layout(cluster_by=["page"])
    layout.begin(views(spark), delta_state(spark, path))
    sink = Upsert(path, keys=["page"], layout=layout)
    assert sink.write({"rows": views(spark)}, batch(0)) == "written"
    assert sink.write({"rows": views(spark)}, batch(0)) == "skipped"
    assert [row.n for row in rows(spark, path)] == [1]


def test_properties_and_partitions_are_there_with_the_first_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = SideTable(path, layout=Layout(["page"], properties=FEED))
    sink.write(views(spark), batch(0))
    sink.write(views(spark), batch(1))
    state = delta_state(spark, path)
    assert (state.partition_columns(), state.version) == (["page"], 1)
    assert state.properties() == {"delta.enableChangeDataFeed": "true"}
    for other, says in (
        (Layout(cluster_by=["page"]), "partitioned by ['page']"),
        (Layout(["n"]), "partition_by=['page']; other partitions need"),
        (Layout(properties={"delta.ENABLEchangeDataFeed": False}), "SET TBLPROPERTIES"),
        (Layout(properties={"delta.appendOnly": True}), "has None"),
    ):
        with pytest.raises(TableError) as error:
            Append(path, layout=other).write({"rows": views(spark)}, batch(2))
        assert says in str(error.value)
    assert delta_state(spark, path).version == 1
    # What a layout does not name may be any way.
    Append(path).write({"rows": views(spark)}, batch(2))


def test_clusters_can_be_given_to_a_table_as_its_error_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    Append(path).write({"rows": views(spark)}, batch(0))
    sink = Append(path, layout=Layout(cluster_by=["page"]))
    with pytest.raises(TableError) as error:
        sink.write({"rows": views(spark)}, batch(1))
    statement = str(error.value).partition("instead: ")[2]
    assert statement == f"ALTER TABLE delta.`{path}` CLUSTER BY (page)"
    spark.sql(statement)
    assert sink.write({"rows": views(spark)}, batch(1)) == "written"


@pytest.mark.parametrize(
    ("layout", "error", "says"),
    [
        (Layout(["day"]), ColumnError, "day"),
        (Layout(["share"]), ColumnTypeError, "of type double"),
        (Layout(["bytes"]), ColumnTypeError, "of type binary"),
        (Layout(["page", "n", "window", "share", "bytes"]), ColumnTypeError, "of type struct"),
        (Layout(cluster_by=["window"]), ColumnTypeError, "of type struct"),
        (Layout(cluster_by=["window.end"]), ColumnError, "there is no 'end'"),
        (Layout(cluster_by=["bytes"]), ColumnTypeError, "of type binary"),
    ],
)
def test_columns_by_which_no_table_is_laid_out_are_refused_before_it_is_made(
    spark: SparkSession, tmp_path: Path, layout: Layout, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Append(str(tmp_path / "t"), layout=layout).write({"rows": views(spark)}, batch(0))
    assert not (tmp_path / "t").exists()
