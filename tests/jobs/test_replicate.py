"""The configuration of the job replicate."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from tests.support.spark_session import configured
from tidegate import Job
from tidegate.errors import ConfigError
from tidegate.jobs.replicate import Replicate, job
from tidegate.replication import ReplicatedTables, TableOptions

TABLE = {"topic": "shop.public.audit", "keep": "history", "schema": "id INT, op STRING"}


def test_the_shipped_configuration_is_valid(spark: SparkSession) -> None:
    config = configured(Replicate)
    assert {path.rpartition("/")[2] for path in config.output.tables().values()} == {
        "replication",
        "tables",
        "dead_letters",
        "offset_gaps",
    }
    sink = job(config).sink
    assert isinstance(sink, ReplicatedTables)
    assert (sink.keep, sink.table_name, sink.source.pattern) == (
        "current",
        "{schema}.{table}",
        r"shop\.public\..*",
    )


def replicate(**sections: object) -> Job:
    values = {"changes": {"pattern": "shop.*"}, "output": {"root": "/data"}, **sections}
    return job(Replicate.model_validate(values))


def test_a_table_has_its_own_options(spark: SparkSession) -> None:
    sink = replicate(tables=[{**TABLE, "key": "id", "rename": {"op": "source_op"}}]).sink
    assert isinstance(sink, ReplicatedTables)
    assert sink.options_by_topic == {
        "shop.public.audit": TableOptions(
            keep="history", columns="id INT, op STRING", key=["id"], rename={"op": "source_op"}
        )
    }


def test_avro_has_its_schemas_in_the_registry(spark: SparkSession) -> None:
    avro = {"pattern": "shop.*", "encoding": "avro"}
    sink = replicate(changes=avro, registry={"url": "http://localhost:1"}).sink
    assert isinstance(sink, ReplicatedTables)
    assert (sink.encoding, repr(sink.registry)) == ("avro", "SchemaRegistry('http://localhost:1')")
    # As in other jobs, a registry that no topic needs is ignored.
    sink = replicate(registry={"url": "http://localhost:1"}).sink
    assert isinstance(sink, ReplicatedTables)
    assert (sink.encoding, sink.registry) == ("json", None)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"tables": [TABLE, TABLE]}, "invalid tables"),
        ({"tables": [{**TABLE, "schema": "id"}]}, "invalid columns"),
        ({"tables": [{**TABLE, "keep": "neither"}]}, "keep"),
        ({"output": {"root": "/data", "table_name": "{column}"}}, "invalid table_name"),
        ({"output": {"root": "/data", "table_folder": "replication"}}, "replication"),
        ({"changes": {"pattern": "a", "topics": "b"}}, "invalid topic choice: topics and pattern"),
        ({"changes": {}}, "invalid topic choice: none"),
        ({"changes": {"pattern": "a", "encoding": "avro"}}, r"missing section: \[registry\]"),
        ({"changes": {"pattern": "a", "encoding": "xml"}}, "encoding"),
        ({"changes": {"pattern": "a", "encoding": "protobuf"}}, r"missing section: \[registry\]"),
    ],
)
def test_an_invalid_configuration_is_refused(
    spark: SparkSession, sections: dict[str, object], problem: str
) -> None:
    with pytest.raises((ConfigError, ValidationError), match=problem):
        replicate(**sections)
