"""Translation of Spark's exceptions to the library's errors."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.errors import CheckpointError, ColumnError, SetupError, SourceError
from tidegate.jvm import condition_names
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.spark.spark_errors import explain_disk_errors, translate_error
from tidegate.testing import Broker
from tidegate.testing.child_process import free_port
from tidegate.windows import Tumbling, WindowAggregation


def test_the_error_condition_selects_the_error_class(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.range(1).select("nope").collect()
    assert condition_names(caught.value) == ["UNRESOLVED_COLUMN.WITH_SUGGESTION"]
    error = translate_error(caught.value)
    assert isinstance(error, ColumnError)
    assert "nope" in error.problem


@pytest.mark.parametrize(
    "message",
    [
        "An error occurred while calling o8.x.\n: org.apache.spark.SparkException: a file is lost",
        "An error occurred while calling o2.x.\n: io.delta.exceptions.DeltaIOException: "
        "java.io.IOException: a file is lost\n\tat org.apache.spark.X.y(X.scala:3)",
        "a file is lost",
    ],
)
def test_the_jvm_s_message_is_the_cause_without_its_wrapping(message: str) -> None:
    error = translate_error(RuntimeError(message))
    assert (error.problem, error.detail) == ("the job failed", "a file is lost")


@pytest.mark.parametrize(
    "message",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent "
        "failure: Lost task 0.3 in stage 3.0: ExecutorLostFailure (executor 3 "
        "exited caused by one of the running tasks) Reason: Command exited with code 52",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: The "
        "executor with id 1 exited with exit code 137(SIGKILL, possible container OOM).",
        "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB used.",
        "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.",
    ],
)
def test_a_lack_of_memory_is_named_with_the_settings_to_raise(message: str) -> None:
    error = translate_error(RuntimeError(message))
    assert isinstance(error, SetupError)
    assert error.problem == "Spark ran out of memory"
    assert "spark.executor.memory" in error.remedy


def test_an_executor_that_is_lost_for_another_reason_is_not_a_lack_of_memory() -> None:
    message = "ExecutorLostFailure (executor 3 exited) Reason: Command exited with code 1"
    assert translate_error(RuntimeError(message)).problem == "the job failed"


def job(broker: Broker, topic: str, root: Path) -> Job:
    return Job(
        name="views",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic)},
        transform=WindowAggregation(Tumbling("1 minute"), by="page", aggs={"n": count()}),
        sink=Append(str(root / "views")),
    )


@pytest.mark.broker
def test_the_error_of_a_missing_topic_lists_the_existing_topics(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    with pytest.raises(SourceError, match=f"the topic {topic}-x does not exist at ") as error:
        run(job(broker, f"{topic}-x", tmp_path), spark)
    assert topic in error.value.detail


@pytest.mark.slow
def test_the_error_of_unreachable_brokers_names_them(spark: SparkSession, tmp_path: Path) -> None:
    servers = f"127.0.0.1:{free_port()}"
    patience = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    silent = replace(pages_input(servers, "t"), source=KafkaSource(servers, "t", options=patience))
    copies = Job(name="copies", inputs={"rows": silent}, sink=Append(str(tmp_path / "copies")))
    with pytest.raises(SourceError, match=r"^the offsets of t cannot be read") as error:
        run(copies, spark)
    assert error.value.detail.startswith(f"{servers} did not describe t: ")
    assert error.value.remedy == f"check that a broker answers at {servers}."


@pytest.mark.jobs
@pytest.mark.broker
@pytest.mark.parametrize("removed", ["state", "offsets"])
def test_a_checkpoint_with_a_missing_folder_is_rejected(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, removed: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [10, 70])
    run(job(broker, topic, tmp_path), spark)
    shutil.rmtree(tmp_path / "views.checkpoint" / removed)
    send_records(broker.bootstrap_servers, topic, [130])
    with pytest.raises(CheckpointError):
        run(job(broker, topic, tmp_path), spark)


@pytest.mark.parametrize(
    "error",
    [
        SetupError("a disk is full: no room", remedy="free disk space"),
        OSError("No space left on device"),
    ],
)
def test_the_error_of_a_full_disk_names_the_folder_and_its_free_bytes(
    tmp_path: Path, error: Exception
) -> None:
    locations = [str(tmp_path / "views"), str(tmp_path / "not" / "there"), "s3a://bucket/views"]
    with pytest.raises(SetupError) as raised, explain_disk_errors(locations):
        raise error
    assert f"bytes are free under {tmp_path})" in raised.value.problem
    assert raised.value.problem.startswith("a disk is full")
    assert "free disk space" in str(raised.value.remedy)


@pytest.mark.parametrize("error", [SetupError("no Java"), OSError("no such file"), ValueError("x")])
def test_any_other_error_passes_unchanged(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, explain_disk_errors([str(tmp_path)]):
        raise error
    assert raised.value is error
