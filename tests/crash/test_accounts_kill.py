"""The job of the accounts killed between its snapshots and its states: no event counts twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.accounts import events, produce, read_states, snapshots, states
from tests.support.crash_leftovers import batches
from tests.support.crash_oracle import require_same
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("accounts", "account_snapshots")


def test_a_job_killed_between_its_snapshots_and_its_states_folds_each_event_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, topic, events(900, seed=8))
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": topic,
        "events.max_records_per_batch": 450,
        "fold.every": 5,
    }
    job = SubmittedJob("accounts", tmp_path / "tables", tmp_path / "job.log", options)
    job.killed_when(
        lambda: len(batches(job.root, "account_snapshots")) == 2, "two batches of snapshots"
    )
    left = batches(job.root, "account_snapshots"), batches(job.root, "accounts")
    assert left == ([0, 1], [0]), "the kill came too late"

    job.finished(spark)
    done = batches(job.root, "accounts")
    assert done == list(range(len(done)))
    found, taken = (Counter(read_states(job.root / name)) for name in TABLES)
    require_same(found, Counter(states(ledger)), "states")
    require_same(taken, Counter(snapshots(ledger, 5)), "snapshots")
