"""The dead-letter topic: headers, ids of duplicates, and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.sink_batches import batch
from tests.support.spark_session import from_options
from tidegate import run
from tidegate.errors import AccountingError, ArgumentError, TopicError
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.kafka.producer import Record, deliver
from tidegate.operations.erasure.erase import erase
from tidegate.sinks import DeadLetterTopic, SideOutputTable
from tidegate.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.jobs]
SETTINGS = {
    "input.schema": "sensor string not null, at timestamp",
    "input.time": "at",
    "input.watermark_delay": "1 second",
    "window.size": "1 minute",
    "window.by": "sensor",
    "aggregates.n": "count",
}
AT = 1_767_312_000_000


def letters(spark: SparkSession, broker: Broker, topic: str) -> list[tuple[Any, dict[str, str]]]:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "includeHeaders": "true"}
    raw = spark.read.format("kafka").options(subscribe=topic, **options).load()
    return [
        (row, {header.key: bytes(header.value).decode() for header in row.headers})
        for row in raw.collect()
    ]


def test_a_dead_letter_has_its_position_reason_and_id_in_headers(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    dead = broker.create_topic(f"{topic}-dead", partitions=2, retention_ms=-1)
    options = {
        **SETTINGS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
        "output.dead_letter_topic": dead,
        "output.side_table_properties.delta.enableChangeDataFeed": "true",
    }
    job = windows(from_options(Windows, options))
    deliver(broker.bootstrap_servers, [Record(topic, value, AT) for value in (b"{oops", b"{}")])
    assert run(job, spark).dead_letters == 2
    state = delta_state(spark, str(tmp_path / "dead_letters"))
    assert state.property("delta.enableChangeDataFeed") == "true"
    sent = letters(spark, broker, dead)
    stored = {(str(row["offset"]), row["reason"]) for row in rows(tmp_path / "dead_letters")}
    assert {
        (headers["tidegate-offset"], headers["tidegate-reason"]) for _, headers in sent
    } == stored
    assert {bytes(row.value) for row, _ in sent} == {b"{oops", b"{}"}
    assert {bytes(row.key).decode() for row, _ in sent} == {f"{topic}/0/0", f"{topic}/0/1"}

    # The erasure report lists the topic, also after the job stopped sending to it.
    run(replace(job, dead_letter_topic=None), spark)
    erasure = erase(spark, [str(tmp_path)], ["sensor=a"], dry_run=True)
    assert [(each.destination_type, each.name) for each in erasure.external_destinations] == [
        ("topic", dead)
    ]
    assert f"topic {dead}, recorded in {job.locations.checkpoint}" in erasure.format_text()

    # After a crash between topic and table the batch is sent again, with the same ids.
    table = spark.read.format("delta").load(str(tmp_path / "dead_letters"))
    again = SideOutputTable(str(tmp_path / "again"), dead_letter_topic=job.dead_letter_topic)
    with pytest.raises(AccountingError):
        again.write(table, batch(0), expected=3)
    assert len(letters(spark, broker, dead)) == 2
    assert job.dead_letter_topic is not None
    job.dead_letter_topic.send(table, "j/q/dead_letters/0")
    assert again.write(table, batch(0), expected=2) == "written"
    assert again.write(table, batch(0), expected=2) == "skipped"
    ids = [headers["tidegate-id"] for _, headers in letters(spark, broker, dead)]
    assert (len(ids), len(set(ids))) == (6, 4)
    missing = DeadLetterTopic(broker.bootstrap_servers, topic=f"{topic}-no")
    lost = SideOutputTable(str(tmp_path / "lost"), dead_letter_topic=missing)
    with pytest.raises(TopicError, match="topic not found"):
        lost.write(table, batch(0), expected=2)
    assert not Path(lost.path).exists()
    with pytest.raises(TopicError, match="topic not found"):
        run(replace(job, dead_letter_topic=missing), spark)


def test_a_job_cannot_read_its_dead_letter_topic(tmp_path: Path) -> None:
    options = {"kafka.bootstrap_servers": "b:1", "input.topics": "t", "output.root": tmp_path}
    config = from_options(Windows, {**SETTINGS, **options, "output.dead_letter_topic": "t"})
    with pytest.raises(ArgumentError, match="dead_letter_topic"):
        windows(config)
