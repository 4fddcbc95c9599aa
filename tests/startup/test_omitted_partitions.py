"""A job cannot omit topics and partitions that its checkpoint has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tidegate import Job, run
from tidegate.errors import CheckpointError, SourceError
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.startup.start_checks import require_no_omitted_partitions
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]
JobFactory = Callable[..., Job]


@pytest.fixture
def pair(broker: Broker, topic: str) -> tuple[str, str]:
    """Two topics of two partitions, with two records in each."""
    names = (f"{topic}-a", f"{topic}-b")
    for name in names:
        broker.create_topic(name, partitions=2, retention_ms=-1)
        for partition in (0, 1):
            send_records(broker.bootstrap_servers, name, [1, 2], partition)
    return names


def offsets_input(source: KafkaSource) -> Input:
    format = json_format("page STRING NOT NULL, event_time TIMESTAMP")
    return Input(
        source, format, time="event_time", watermark_delay="0 seconds", kafka_columns=["offset"]
    )


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> JobFactory:
    """Return a function from source options to a job."""

    def create(**options: Any) -> Job:
        pages = offsets_input(KafkaSource(broker.bootstrap_servers, **options))
        return Job(name="left_out", inputs={"pages": pages}, sink=Append(f"{tmp_path}/rows"))

    return create


def written_offsets(root: Path) -> Counter[int]:
    return Counter(row["offset"] for row in rows(root / "rows"))


@pytest.mark.parametrize("on_data_loss", ["stop", "record"])
@pytest.mark.parametrize("unit", ["topic", "partition"])
def test_an_omitted_topic_or_partition_is_refused_and_continues_once_it_is_named_again(
    broker: Broker,
    pair: tuple[str, str],
    job: JobFactory,
    tmp_path: Path,
    spark: SparkSession,
    unit: str,
    on_data_loss: str,
) -> None:
    first, second = pair
    complete: dict[str, Any] = {"topics": pair}
    part: dict[str, Any] = {"topics": first}
    if unit == "partition":
        complete, part = {"partitions": {first: [0, 1]}}, {"partitions": {first: [0]}}
    run(job(**complete, on_data_loss=on_data_loss), spark)
    send_records(broker.bootstrap_servers, second if unit == "topic" else first, [3], partition=1)
    omitted = f"{second}-0, {second}-1" if unit == "topic" else f"{first}-1"
    with pytest.raises(CheckpointError, match=f"^no input reads {omitted}, which") as error:
        run(job(**part, on_data_loss=on_data_loss), spark)
    assert "add the topics and partitions to the inputs" in error.value.remedy
    run(job(**complete, on_data_loss=on_data_loss), spark)
    copies = 4 if unit == "topic" else 2
    assert written_offsets(tmp_path) == {0: copies, 1: copies, 2: 1}


def test_a_deleted_topic_of_a_pattern_is_a_warning_only_if_data_loss_is_recorded(
    broker: Broker,
    pair: tuple[str, str],
    job: JobFactory,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = pair
    pattern = f"{first[:-1]}[ab]"
    run(job(pattern=pattern), spark)
    send_records(broker.bootstrap_servers, first, [3])
    broker.delete_topic(second)
    with pytest.raises(SourceError, match=second):
        run(job(pattern=pattern), spark)
    with caplog.at_level("WARNING"):
        run(job(pattern=pattern, on_data_loss="record"), spark)
    assert f"the topic {second} no longer exists; its unread records are lost" in caplog.text
    assert written_offsets(tmp_path) == {0: 4, 1: 4, 2: 1}


def test_a_pattern_that_matches_no_topic_is_a_warning(
    broker: Broker, job: JobFactory, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        assert run(job(pattern="no-such-topic-.*"), spark).rows_in == 0
    assert "no topic matches the pattern 'no-such-topic-.*'; nothing is read" in caplog.text


@pytest.mark.usefixtures("spark")
def test_a_topic_cannot_move_to_another_input() -> None:
    inputs = {
        name: offsets_input(KafkaSource("nowhere:9092", topic))
        for name, topic in (("searches", "clicks"), ("clicks", "searches"))
    }
    fingerprint = {"searches.topics": "['searches']", "clicks.topics": "['clicks']"}
    read_offsets = {"searches": {0: 4}, "clicks": {0: 7}}
    with pytest.raises(CheckpointError, match=r"^another input reads searches, which the input"):
        require_no_omitted_partitions(inputs, read_offsets, fingerprint)
    require_no_omitted_partitions(inputs, read_offsets, {})
