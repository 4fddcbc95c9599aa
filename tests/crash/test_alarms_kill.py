"""The job of alarms killed between its windows and its alarms: each alarm is written once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.alarms import OPTIONS, clicked, log, standing, unusual
from tests.support.crash_leftovers import batches
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.sample_clicks import send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_alarms_killed_after_their_windows_are_raised_and_withdrawn_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    first, late = clicked()
    own = {"kafka.bootstrap_servers": broker.bootstrap_servers, "input.topics": topic}
    options: dict[str, object] = {**OPTIONS, **own}
    killed = SubmittedJob("alarms", tmp_path / "tables", tmp_path / "job.log", options)
    ledger = send_clicks(broker.bootstrap_servers, topic, first, partitions=1)
    killed.finished(spark)
    ledger += send_clicks(broker.bootstrap_servers, topic, late, partitions=1)
    killed.killed_at("windows")
    written = batches(killed.root, "windows")
    assert batches(killed.root, "alarms") == written[:-1], "the kill came too late"
    killed.finished(spark)
    alarms = killed.root / "alarms"
    assert standing(alarms) == unusual(ledger)
    entries = log(alarms)
    places = [(version, alarm) for version, alarm, _ in entries]
    assert len(set(places)) == len(places)
    assert {version for version, _, _ in entries} == {1, 2}
