"""TableLayout: applied at creation, and compared with existing tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable as DeltaRsTable
from pyspark.sql import DataFrame, SparkSession

from tests.support.sink_batches import batch, commits, rows
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import ColumnError, ColumnTypeError, TableError
from tidegate.jvm import delta_state
from tidegate.sinks import Append, SideOutputTable, Upsert

pytestmark = pytest.mark.slow
FEED = {"delta.enableChangeDataFeed": True}


def views(spark: SparkSession, n: int = 1) -> DataFrame:
    return spark.sql(
        f"select '/a' page, {n}L n, named_struct('start', timestamp '2026-01-01') window, "
        "0.5D share, X'00' bytes"
    )


def test_a_clustered_table_contains_batches_once_and_another_engine_reads_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "a table's")
    layout = TableLayout(cluster_by=["window.start", "page"], properties=FEED)
    sink = Upsert(path, keys=["page"], layout=layout)
    assert sink.write({"rows": views(spark)}, batch(0)) == "written"
    state = delta_state(spark, path)
    assert state.clustering_columns() == ["window.start", "page"]
    assert state.property("delta.enableChangeDataFeed") == "true"
    assert [info["operation"] for info in commits(path)] == ["CREATE TABLE", "WRITE"]
    assert sink.write({"rows": views(spark, 2)}, batch(1)) == "written"
    assert [sink.write({"rows": views(spark)}, batch(n)) for n in (0, 1)] == ["skipped"] * 2
    assert [row.n for row in rows(spark, path)] == [2]
    assert DeltaRsTable(path).to_pyarrow_table()["n"].to_pylist() == [2]
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert delta_state(spark, path).clustering_columns() == ["window.start", "page"]


def test_a_table_that_a_crash_left_empty_is_continued(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    layout = TableLayout(cluster_by=["page"])
    layout.create_clustered_table(views(spark), delta_state(spark, path))
    sink = Upsert(path, keys=["page"], layout=layout)
    assert sink.write({"rows": views(spark)}, batch(0)) == "written"
    assert sink.write({"rows": views(spark)}, batch(0)) == "skipped"
    assert [row.n for row in rows(spark, path)] == [1]


def test_properties_and_partitions_are_set_with_the_first_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = SideOutputTable(path, layout=TableLayout(["page"], properties=FEED))
    sink.write(views(spark), batch(0))
    sink.write(views(spark), batch(1))
    state = delta_state(spark, path)
    assert (state.partition_columns(), state.version) == (["page"], 1)
    assert state.properties() == {"delta.enableChangeDataFeed": "true"}
    for other, message in (
        (TableLayout(cluster_by=["page"]), "the partitioning of the table: ['page']"),
        (TableLayout(["n"]), "partition_by=['page']; or a new table"),
        (TableLayout(properties={"delta.ENABLEchangeDataFeed": False}), "SET TBLPROPERTIES"),
        (TableLayout(properties={"delta.appendOnly": True}), "the value of the table: None"),
    ):
        with pytest.raises(TableError) as error:
            Append(path, layout=other).write({"rows": views(spark)}, batch(2))
        assert message in str(error.value)
    assert delta_state(spark, path).version == 1
    # A layout restricts only what it specifies.
    Append(path).write({"rows": views(spark)}, batch(2))


def test_the_remedy_of_the_error_clusters_an_existing_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    Append(path).write({"rows": views(spark)}, batch(0))
    sink = Append(path, layout=TableLayout(cluster_by=["page"]))
    with pytest.raises(TableError) as error:
        sink.write({"rows": views(spark)}, batch(1))
    statement = str(error.value).partition("try: ")[2]
    assert statement == f"ALTER TABLE delta.`{path}` CLUSTER BY (page)"
    spark.sql(statement)
    assert sink.write({"rows": views(spark)}, batch(1)) == "written"


@pytest.mark.parametrize(
    ("layout", "error", "message"),
    [
        (TableLayout(["day"]), ColumnError, "day"),
        (TableLayout(["share"]), ColumnTypeError, "of type double"),
        (TableLayout(["bytes"]), ColumnTypeError, "of type binary"),
        (TableLayout(["page", "n", "window", "share", "bytes"]), ColumnTypeError, "of type struct"),
        (TableLayout(cluster_by=["window"]), ColumnTypeError, "of type struct"),
        (TableLayout(cluster_by=["window.end"]), ColumnError, "column 'end' not found"),
        (TableLayout(cluster_by=["bytes"]), ColumnTypeError, "of type binary"),
    ],
)
def test_unsupported_layout_columns_are_refused_before_the_table_is_created(
    spark: SparkSession, tmp_path: Path, layout: TableLayout, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Append(str(tmp_path / "t"), layout=layout).write({"rows": views(spark)}, batch(0))
    assert not (tmp_path / "t").exists()
