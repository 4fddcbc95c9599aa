"""Failures outside the driver: a Python worker, the broker, the data of the broker."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tidegate import Input, Job, run
from tidegate.errors import SourceError, TidegateError
from tidegate.formats import json_format
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker
from tidegate.transform import Stateless

pytestmark = [pytest.mark.broker, pytest.mark.crash]
QUICK = {
    "kafka.default.api.timeout.ms": "2000",
    "kafka.request.timeout.ms": "1500",
    "kafka.session.timeout.ms": "1500",
    "kafka.heartbeat.interval.ms": "500",
    "kafka.fetch.max.wait.ms": "200",
}
"""Kafka's client gives up after two seconds."""
SECONDS = range(40)


def job(
    broker: Broker,
    topic: str,
    root: Path,
    each_batch: object = None,
    options: Mapping[str, str] = QUICK,
) -> Job:
    """Return a job that copies the seconds of a topic, ten records a batch."""
    reading = Input(
        KafkaSource(broker.bootstrap_servers, topic, max_records_per_batch=10, options=options),
        json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    inputs = {"seconds": reading}
    sink = Append(str(root / "seconds"))
    if each_batch is None:
        return Job(name="copies", inputs=inputs, sink=sink)
    return Job(name="copies", inputs=inputs, sink=sink, transform=each_batch)  # type: ignore[arg-type]


def found(root: Path) -> list[int]:
    return sorted(row["event_time"].second for row in rows(root / "seconds"))


def ended(each: Job, spark: SparkSession) -> TidegateError | None:
    try:
        run(each, spark)
    except TidegateError as error:
        return error
    return None


def test_a_python_worker_killed_in_a_batch_loses_no_record(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, SECONDS)
    flag = tmp_path / "killed"

    def dying(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            third = len(part) > 0 and pc.max(pc.second(part["event_time"])).as_py() > 20
            if third and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    def transform(seconds: DataFrame) -> DataFrame:
        return seconds.mapInArrow(dying, seconds.schema)

    each = job(broker, topic, tmp_path, Stateless(transform, one_to_one=True))
    # A local session tries a task once; a cluster's tries it again.
    refusal = ended(each, spark)
    assert flag.exists()
    assert refusal is not None
    assert len(found(tmp_path)) == 20
    run(each, spark)
    assert found(tmp_path) == list(SECONDS)


@pytest.mark.timeout(400)
@pytest.mark.draws("patience", short=["quick"], long=["quick", "Kafka's own"])
def test_a_broker_that_stops_for_some_time_loses_no_record_and_a_longer_stop_ends_the_job(
    spark: SparkSession, tmp_path: Path, patience: str
) -> None:
    """Eight seconds, with a client that gives up after two; a minute, with Kafka's own settings."""
    options, seconds = (QUICK, 8.0) if patience == "quick" else ({}, 60.0)
    with Broker.start() as broker:
        broker.create_topic("stops", partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, "stops", SECONDS)
        assert broker._process is not None
        group = broker._process.pid
        wakes = Timer(seconds, os.killpg, (group, signal.SIGCONT))

        def stopping(seconds: DataFrame) -> DataFrame:
            if not wakes.is_alive() and wakes.ident is None:
                os.killpg(group, signal.SIGSTOP)
                wakes.start()
            return seconds

        whole = job(broker, "stops", tmp_path, options=options)
        each = Job(name=whole.name, inputs=whole.inputs, sink=whole.sink, each_batch=stopping)
        refusal = ended(each, spark)
        wakes.join()
        if refusal is not None:
            assert isinstance(refusal, SourceError)
            assert exit_code(refusal) == 3
        run(each, spark)
        assert found(tmp_path) == list(SECONDS)


def test_a_broker_with_deleted_data_is_not_read_from_old_offsets(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "broker"
    with Broker.start(folder) as broker:
        broker.create_topic("wiped", partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, "wiped", SECONDS)
        run(job(broker, "wiped", tmp_path), spark)
        port = broker.port
    shutil.rmtree(folder)
    with Broker.start(folder, port=port) as broker:
        refusal = ended(job(broker, "wiped", tmp_path), spark)
        assert isinstance(refusal, SourceError)
        assert "the broker no longer has wiped" in str(refusal)
        broker.create_topic("wiped", partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, "wiped", range(59))
        refusal = ended(job(broker, "wiped", tmp_path), spark)
        assert isinstance(refusal, SourceError)
        assert "deleted and created again" in str(refusal)
        assert found(tmp_path) == list(SECONDS)
