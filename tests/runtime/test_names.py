"""Tables by name: a job's become known in a catalog, and a job reads one by its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.named import location, make_known, path_of
from tidegate.errors import ArgumentError, TableError
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.names import names
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, Snapshot
from tidegate.testing import Broker

from ..sinks.batches import batch
from ..tables import rows
from .topics import reading, sent


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS shop")
    yield "shop"
    spark.sql("DROP SCHEMA IF EXISTS shop CASCADE")


@pytest.mark.broker
def test_the_tables_of_a_job_are_known_by_name_once_they_are_there(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, schema: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 2])

    def made(folder: str, catalog: str) -> Job:
        return Job(
            name="pages",
            inputs={"pages": Input(reading(broker.servers, topic))},
            sink=Append(str(tmp_path / folder / "it's 1st pages")),
            catalog=catalog,
        )

    with pytest.raises(TableError, match="no schema nowhere"):
        run(made("a", "nowhere"), spark)
    assert list((tmp_path / "a").iterdir()) == []

    run(made("a", schema), spark)
    assert spark.table("shop.it_s_1st_pages").count() == 2
    assert spark.catalog.tableExists("shop.it_s_1st_pages_dead_letters") is False

    # The name stays, and the dead letters get theirs with their first row.
    sent(broker.servers, topic, ["no page", 3])
    run(made("a", schema), spark)
    assert spark.table("shop.it_s_1st_pages").count() == 3
    assert spark.table("shop.it_s_1st_pages_dead_letters").count() == 1

    with pytest.raises(TableError, match=r"shop\.it_s_1st_pages\w* is the table at"):
        run(made("b", schema), spark)
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.slow
def test_a_name_is_looked_up_and_all_else_is_a_path(
    spark: SparkSession, tmp_path: Path, schema: str
) -> None:
    path = str(tmp_path / "users")
    spark.range(2).write.format("delta").save(path)
    make_known(spark, "shop.users", path)
    assert path_of(spark, "shop.users") == f"file:{path}"
    assert path_of(spark, "spark_catalog.shop.users") == f"file:{path}"
    assert path_of(spark, path) == path
    sink = Snapshot(
        table="shop.users",
        join=lambda events, users: events.crossJoin(users),
        sink=Append(str(tmp_path / "met")),
    )
    assert sink.write({"rows": spark.range(3).toDF("event")}, batch(0)) == "written"
    assert len(rows(tmp_path / "met")) == 6
    with pytest.raises(TableError, match=r"no table shop\.nobody"):
        path_of(spark, "shop.nobody")

    spark.sql("CREATE VIEW shop.seen AS SELECT 1 AS one")
    with pytest.raises(TableError, match=r"shop\.seen cannot be looked up"):
        location(spark, "shop.seen")
    spark.sql("CREATE TABLE shop.parquet USING parquet AS SELECT 1 AS one")
    with pytest.raises(TableError, match="a table of parquet"):
        location(spark, "shop.parquet")
    shutil.rmtree(path)
    with pytest.raises(TableError, match=r"DROP TABLE shop\.users makes the name free"):
        location(spark, "shop.users")
    with pytest.raises(TableError, match=r"cannot be named nowhere\.users"):
        make_known(spark, "nowhere.users", path)


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"would both be named shop\.views"):
        names("shop", {"one": "/a/views", "two": "/b/views"})
    assert names("shop", {"one": "/a/views", "two": "/a/views/"}) == {"shop.views": "/a/views"}
