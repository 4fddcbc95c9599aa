"""The job of the reservations killed between its events and its states: it decides nothing
twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Broker

from ..worlds.reservations import commands, produce, require_tables
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_a_job_killed_between_its_events_and_its_states_decides_each_command_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.servers, topic, commands(400, seed=4))
    options = {
        "kafka.servers": broker.servers,
        "commands.topics": topic,
        "commands.max_rows": 250,
    }
    job = SubmittedJob("reservations", tmp_path / "tables", tmp_path / "job.log", options)
    job.killed_when(lambda: len(batches(job.root, "seat_events")) == 2, "two batches of events")
    left = batches(job.root, "seat_events"), batches(job.root, "seats")
    assert left == ([0, 1], [0]), "the kill came too late"

    job.finished(spark)
    assert batches(job.root, "seats") == [0, 1]
    require_tables(job.root, ledger)
