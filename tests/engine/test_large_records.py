"""Records of megabytes, and batches with very many dead letters."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.cli.test_cli import invoke
from tests.support.delta_tables import by_spark
from tests.support.delta_tables import rows as by_deltalake
from tests.support.raw_records import RECEIVED, produce
from tidegate import Input, Job, KafkaSource, Limits, json_format, run
from tidegate.sinks import Append
from tidegate.testing import Broker

pytestmark = [pytest.mark.jobs, pytest.mark.broker]

MEGABYTE = 1_000_000


def notes_job(broker: Broker, topic: str, root: Path, max_value_bytes: int = 65_536) -> Job:
    notes = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format("id INT, note STRING, at TIMESTAMP"),
        time="at",
        watermark_delay="1 minute",
        max_value_bytes=max_value_bytes,
    )
    return Job(
        name="notes",
        inputs={"notes": notes},
        sink=Append(str(root / "notes")),
        dead_letters=str(root / "dead"),
        limits=Limits(dead_rows=None, dead_ratio=None),
    )


def note(id_: int, text: str, at: datetime = RECEIVED) -> bytes:
    record = {"id": id_, "note": text, "at": at.isoformat()}
    return json.dumps(record, ensure_ascii=False).encode()


def test_records_of_three_megabytes_are_rows_or_dead_letters_with_all_of_their_bytes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1, max_message_bytes=4 * MEGABYTE)
    texts = {id_: f"{id_}é" * MEGABYTE for id_ in range(3)}
    valid = [note(id_, text) for id_, text in texts.items()]
    invalid = [b"\xff" * (3 * MEGABYTE), b'{"id": ' + b"1" * (3 * MEGABYTE)]
    produce(broker.bootstrap_servers, topic, [valid[0], invalid[0], *valid[1:], invalid[1]])
    done = run(notes_job(broker, topic, tmp_path, max_value_bytes=4 * MEGABYTE), spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (5, 3, 2)
    for read in (by_deltalake, by_spark(spark)):
        assert {row["id"]: row["note"] for row in read(tmp_path / "notes")} == texts
        letters = {row["offset"]: row for row in read(tmp_path / "dead")}
        assert {offset: row["value"] for offset, row in letters.items()} == {
            1: invalid[0],
            4: invalid[1],
        }
        assert {row["value_bytes"] for row in letters.values()} == set(map(len, invalid))


def test_produce_sends_a_line_of_three_megabytes_where_the_topic_accepts_it(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    small = broker.create_topic(f"{topic}-small", max_message_bytes=MEGABYTE)
    broker.create_topic(topic, max_message_bytes=4 * MEGABYTE)
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(note(1, "x" * (3 * MEGABYTE)) + b"\n")
    arguments = [str(lines), "--servers", broker.bootstrap_servers]
    assert invoke("produce", topic, *arguments) == (0, f"1 records sent to {topic}.\n")
    code, output = invoke("produce", small, *arguments)
    assert (code, "cause: Broker: Message size too large." in output) == (3, True), output


@pytest.mark.slow
def test_many_dead_letters_of_a_batch_are_written_once_and_not_collected_in_the_driver(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    number = 300_000
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2 * number,
            "linger.ms": 50,
        }
    )
    timestamp = int(RECEIVED.timestamp() * 1000)
    for index in range(number):
        producer.produce(topic, b'{"id":%d}' % index, partition=index % 2, timestamp=timestamp)
    producer.produce(topic, note(1, "good"), partition=0, timestamp=timestamp)
    assert producer.flush(60) == 0
    job = notes_job(broker, topic, tmp_path)
    last_stage = max(result_bytes(spark), default=-1)
    done = run(job, spark)
    collected = sum(size for stage, size in result_bytes(spark).items() if stage > last_stage)
    assert (done.batches, done.rows_out, done.dead_letters) == (1, 1, number)
    assert collected < MEGABYTE
    dead = spark.read.format("delta").load(str(tmp_path / "dead"))
    value = F.get_json_object(F.col("value").cast("string"), "$.id").cast("int")
    is_own = (value % 2 == F.col("partition")) & (F.floor(value / 2) == F.col("offset"))
    assert dead.agg(F.count("*"), F.countDistinct(value), F.count_if(is_own)).collect() == [
        (number, number, number)
    ]
    assert {row["reason"] for row in dead.select("reason").distinct().collect()} == {
        "no event time"
    }
    assert run(job, spark).dead_letters == 0


def result_bytes(spark: SparkSession) -> dict[int, int]:
    """Return the bytes that the tasks of each stage have sent to the driver."""
    context, gateway = spark._jsparkSession.sparkContext(), spark._sc._gateway
    assert gateway is not None
    context.listenerBus().waitUntilEmpty()
    quantiles, statuses = (
        gateway.new_array(gateway.jvm.double, 0),
        gateway.jvm.java.util.ArrayList(),
    )
    stages = context.statusStore().stageList(None, False, False, quantiles, statuses)
    return {
        stages.apply(index).stageId(): stages.apply(index).resultSize()
        for index in range(stages.size())
    }
