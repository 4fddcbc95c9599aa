"""Topics whose broker sets the timestamps of records: message.timestamp.type=LogAppendTime."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import by_spark
from tests.support.delta_tables import rows as by_deltalake
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, Limits, json_format, run
from tidegate.sinks import Append
from tidegate.testing import Broker

pytestmark = [pytest.mark.jobs, pytest.mark.broker]

HOUR = timedelta(hours=1)


def visits(broker: Broker, topic: str, **settings: Any) -> Input:
    return Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format("id INT, at TIMESTAMP"),
        watermark_delay="1 minute",
        kafka_columns=["timestamp"],
        **settings,
    )


def visits_job(name: str, root: Path, visits: Input) -> Job:
    return Job(
        name=name,
        inputs={"visits": visits},
        sink=Append(str(root / name)),
        dead_letters=str(root / f"{name}-dead"),
        limits=Limits(dead_ratio=None),
    )


def test_the_time_of_the_broker_replaces_that_of_the_producer_as_event_time_and_as_its_limit(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC).replace(microsecond=0)
    times = {1: before - 30 * HOUR, 2: before + HOUR / 2, 3: before + 2 * HOUR}
    for id_, at in times.items():
        value = json.dumps({"id": id_, "at": at.isoformat()}).encode()
        # The clock of the producer is as wrong as the time in the record.
        produce(broker.bootstrap_servers, topic, [value], at=at)
    after = datetime.now(UTC)
    by_record = visits_job("record", tmp_path, visits(broker, topic, time=F.col("timestamp")))
    by_field = visits_job("field", tmp_path, visits(broker, topic, time="at"))
    assert (run(by_record, spark).dead_letters, run(by_field, spark).dead_letters) == (0, 1)
    assert [each.message for each in caplog.records if "clock" in each.message] == []
    for read in (by_deltalake, by_spark(spark)):
        found = read(tmp_path / "record")
        assert {row["id"]: row["at"] for row in found} == times
        assert all(before <= row["event_time"] == row["timestamp"] <= after for row in found)
        found = read(tmp_path / "field")
        assert {row["id"]: row["event_time"] for row in found} == {1: times[1], 2: times[2]}
        assert all(before <= row["timestamp"] <= after for row in found)
        (letter,) = read(tmp_path / "field-dead")
        assert (letter["offset"], letter["stage"], letter["reason"]) == (
            2, "event_time", "event time more than 1 hour ahead of the record's timestamp"
        )  # fmt: skip
        assert before <= letter["timestamp"] <= after
