"""The job reservations killed between its events and its states: each command is decided once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.reservations import commands, produce, require_tables
from tests.support.crash_leftovers import batches
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_a_job_killed_between_its_events_and_its_states_decides_each_command_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, topic, commands(400, seed=4))
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "commands.topics": topic,
        "commands.max_records_per_batch": 250,
    }
    job = SubmittedJob("reservations", tmp_path / "tables", tmp_path / "job.log", options)
    job.killed_when(lambda: len(batches(job.root, "seat_events")) == 2, "two batches of events")
    left = batches(job.root, "seat_events"), batches(job.root, "seats")
    assert left == ([0, 1], [0]), "the kill came too late"

    job.finished(spark)
    assert batches(job.root, "seats") == [0, 1]
    require_tables(job.root, ledger)
