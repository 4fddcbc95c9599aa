"""A log that ends before what the job has read of it is refused, at the start and in a batch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import rows
from tests.support.partition_logs import truncate_log
from tidegate import Job, run
from tidegate.errors import CheckpointError, SourceError
from tidegate.formats import json_format
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.startup import start_checks
from tidegate.testing import Broker

TOPIC = "numbers"
READ_UP_TO, CUT_TO = 6, 4


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker.start(tmp_path / "broker") as broker:
        broker.create_topic(TOPIC, partitions=2, retention_ms=-1)
        yield broker


def send(broker: Broker, numbers: Sequence[int]) -> None:
    """Send each number in a batch of its own, so that the log can be cut between any two."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(TOPIC, f'{{"n": {number}}}'.encode(), partition=0)
        producer.flush()


def numbers_job(broker: Broker, table: Path, on_data_loss: Literal["stop", "record"]) -> Job:
    source = KafkaSource(broker.bootstrap_servers, TOPIC, on_data_loss=on_data_loss)
    numbers = Input(
        source, json_format("n BIGINT"), time=F.col("timestamp"), watermark_delay="0 seconds"
    )
    return Job(name="numbers", inputs={"numbers": numbers}, sink=Append(str(table)))


def cut_back(broker: Broker) -> None:
    broker.kill()
    truncate_log(broker, TOPIC, CUT_TO)
    broker.restart()


@pytest.mark.jobs
@pytest.mark.broker
@pytest.mark.parametrize("on_data_loss", ["stop", "record"])
def test_a_log_that_was_cut_back_is_refused_and_its_remedy_reads_what_it_has(
    own_broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
    on_data_loss: Literal["stop", "record"],
) -> None:
    table = tmp_path / "first" / "numbers"
    job = numbers_job(own_broker, table, on_data_loss)
    send(own_broker, range(READ_UP_TO))
    run(job, spark)
    cut_back(own_broker)
    before = rows(table)

    for _ in range(2):
        with pytest.raises(SourceError) as refused:
            run(job, spark)
        assert exit_code(refused.value) == 3
        text = str(refused.value)
        assert f"{TOPIC}-0 was truncated" in text
        assert f"up to offset {READ_UP_TO}, but ends at {CUT_TO} now" in text
        assert "with a new checkpoint and new tables" in text
        assert rows(table) == before

    send(own_broker, [100])
    with pytest.raises(SourceError, match=f"{TOPIC}-0 was truncated"):
        run(job, spark)
    assert rows(table) == before

    fresh = tmp_path / "second" / "numbers"
    run(numbers_job(own_broker, fresh, on_data_loss), spark)
    assert sorted(row["n"] for row in rows(fresh)) == [*range(CUT_TO), 100]


@pytest.mark.jobs
@pytest.mark.broker
def test_a_log_that_is_cut_back_after_the_checks_of_the_start_writes_nothing(
    own_broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "numbers"
    job = numbers_job(own_broker, table, "stop")
    send(own_broker, range(READ_UP_TO))
    run(job, spark)
    before = rows(table)
    cut_back(own_broker)

    with monkeypatch.context() as patch:
        patch.setattr(start_checks, "require_not_truncated", lambda read, ends: None)
        with pytest.raises(SourceError, match=f"the log of {TOPIC}-0 was truncated") as refused:
            run(job, spark)
    assert f"up to offset {READ_UP_TO}, but ends at {CUT_TO} now" in str(refused.value)

    with pytest.raises(CheckpointError, match=f"ends at {CUT_TO} in {TOPIC}-0") as planned:
        run(job, spark)
    assert "the broker has truncated the log" in str(planned.value)
    shutil.rmtree(job.locations.checkpoint)
    with pytest.raises(SourceError, match=f"{TOPIC}-0 was truncated"):
        run(job, spark, resume_from_table=True)
    assert rows(table) == before
