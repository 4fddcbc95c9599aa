"""What Spark throws when a job fails, in the library's own errors."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.errors import CheckpointError, ColumnError, SourceError
from tidegate.jvm import conditions
from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.failures import plain
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker
from tidegate.testing.process import free_port
from tidegate.windows import Tumbling, Windowed

from .topics import reading, sent


def test_an_error_is_told_by_the_condition_that_spark_names(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.range(1).select("nope").collect()
    assert conditions(caught.value) == ["UNRESOLVED_COLUMN.WITH_SUGGESTION"]
    told = plain(caught.value)
    assert isinstance(told, ColumnError)
    assert "nope" in told.given


@pytest.mark.parametrize(
    "said",
    [
        "An error occurred while calling o8.x.\n: org.apache.spark.SparkException: a file is gone",
        "An error occurred while calling o2.x.\n: io.delta.exceptions.DeltaIOException: "
        "java.io.IOException: a file is gone\n\tat org.apache.spark.X.y(X.scala:3)",
        "a file is gone",
    ],
)
def test_what_the_jvm_said_is_told_without_its_wrapping(said: str) -> None:
    assert plain(RuntimeError(said)).given == "the job failed: a file is gone"


def job(broker: Broker, topic: str, root: Path) -> Job:
    return Job(
        name="views",
        inputs={"clicks": Input(reading(broker.servers, topic))},
        transform=Windowed(Tumbling("1 minute"), by="page", aggs={"n": count()}),
        sink=Append(str(root / "views")),
    )


@pytest.mark.broker
def test_a_topic_that_is_not_there_is_named_with_those_that_are(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    with pytest.raises(SourceError, match=f"there is no topic {topic}-x at ") as told:
        run(job(broker, f"{topic}-x", tmp_path), spark)
    assert topic in told.value.allowed


@pytest.mark.slow
def test_brokers_that_do_not_answer_are_named_without_a_word_of_backlogs(
    spark: SparkSession, tmp_path: Path
) -> None:
    servers = f"127.0.0.1:{free_port()}"
    patience = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    silent = replace(reading(servers, "t"), source=KafkaSource(servers, "t", options=patience))
    made = Job(name="copies", inputs={"rows": Input(silent)}, sink=Append(str(tmp_path / "copies")))
    with pytest.raises(SourceError, match=f"^{servers} does not tell of t: ") as told:
        run(made, spark)
    assert told.value.hint == f"see that a broker runs at {servers}, or name other servers."
    assert "backlog" not in told.value.allowed


@pytest.mark.broker
@pytest.mark.parametrize("removed", ["state", "offsets"])
def test_a_checkpoint_without_a_folder_of_its_own_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, removed: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [10, 70])
    run(job(broker, topic, tmp_path), spark)
    shutil.rmtree(tmp_path / "views.checkpoint" / removed)
    sent(broker.servers, topic, [130])
    with pytest.raises(CheckpointError):
        run(job(broker, topic, tmp_path), spark)
