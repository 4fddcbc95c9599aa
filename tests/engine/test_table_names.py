"""Table names: a job registers its tables in a catalog, and reads a table by its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.sink_batches import batch
from tidegate import Job, run
from tidegate.delta.catalog import register_table, resolve_table_path, table_location
from tidegate.engine.maintenance import catalog_names
from tidegate.errors import ArgumentError, TableError
from tidegate.sinks import Append, SnapshotJoin
from tidegate.testing import Broker


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS shop")
    yield "shop"
    spark.sql("DROP SCHEMA IF EXISTS shop CASCADE")


@pytest.mark.jobs
@pytest.mark.broker
def test_the_tables_of_a_job_are_registered_once_they_exist(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, schema: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2])

    def create_job(folder: str, catalog: str) -> Job:
        return Job(
            name="pages",
            inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
            sink=Append(str(tmp_path / folder / "it's 1st pages")),
            catalog=catalog,
        )

    with pytest.raises(TableError, match=r"^unknown schema: 'nowhere'"):
        run(create_job("a", "nowhere"), spark)
    assert list((tmp_path / "a").iterdir()) == []

    run(create_job("a", schema), spark)
    assert spark.table("shop.it_s_1st_pages").count() == 2
    assert spark.catalog.tableExists("shop.it_s_1st_pages_dead_letters") is False

    # The name does not change, and the dead letter table is registered with its first row.
    send_records(broker.bootstrap_servers, topic, ["no page", 3])
    run(create_job("a", schema), spark)
    assert spark.table("shop.it_s_1st_pages").count() == 3
    assert spark.table("shop.it_s_1st_pages_dead_letters").count() == 1

    with pytest.raises(
        TableError, match=r"^the name shop\.it_s_1st_pages\w* is taken by the table at"
    ):
        run(create_job("b", schema), spark)
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.slow
def test_a_table_name_is_resolved_and_any_other_string_is_a_path(
    spark: SparkSession, tmp_path: Path, schema: str
) -> None:
    path = str(tmp_path / "users")
    spark.range(2).write.format("delta").save(path)
    register_table(spark, "shop.users", path)
    assert resolve_table_path(spark, "shop.users") == f"file:{path}"
    assert resolve_table_path(spark, "spark_catalog.shop.users") == f"file:{path}"
    assert resolve_table_path(spark, path) == path
    sink = SnapshotJoin(
        table="shop.users",
        join=lambda events, users: events.crossJoin(users),
        sink=Append(str(tmp_path / "met")),
    )
    assert sink.write({"rows": spark.range(3).toDF("event")}, batch(0)) == "written"
    assert len(rows(tmp_path / "met")) == 6
    with pytest.raises(TableError, match=r"table not found: shop\.nobody"):
        resolve_table_path(spark, "shop.nobody")

    spark.sql("CREATE VIEW shop.seen AS SELECT 1 AS one")
    with pytest.raises(TableError, match=r"invalid table: shop\.seen"):
        table_location(spark, "shop.seen")
    spark.sql("CREATE TABLE shop.parquet USING parquet AS SELECT 1 AS one")
    with pytest.raises(TableError, match="has the format parquet"):
        table_location(spark, "shop.parquet")
    shutil.rmtree(path)
    with pytest.raises(TableError, match=r"DROP TABLE shop\.users releases the name"):
        table_location(spark, "shop.users")
    with pytest.raises(TableError, match=r"as nowhere\.users"):
        register_table(spark, "nowhere.users", path)


def test_two_tables_with_the_same_name_raise() -> None:
    with pytest.raises(ArgumentError, match=r"would both be named shop\.views"):
        catalog_names("shop", {"one": "/a/views", "two": "/b/views"})
    assert catalog_names("shop", {"one": "/a/views", "two": "/a/views/"}) == {
        "shop.views": "/a/views"
    }
