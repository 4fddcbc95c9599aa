"""The job of the customers' history killed between its tables: no change is lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.customer_history import (
    OPTIONS,
    customers,
    dead,
    expected_customers,
    expected_history,
    produce,
    read_customers,
    read_dead,
    read_history,
)
from tests.support.crash_leftovers import batches
from tests.support.crash_oracle import require_same
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]


@pytest.mark.draws("before_too", short=[False], long=[True])
def test_a_job_killed_before_between_and_after_its_tables_loses_no_change_and_repeats_none(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, before_too: bool
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, topic, customers(1_000, seed=7, people=80))
    kinds = {sent.event.op for sent in ledger if not sent.event.fault}
    assert kinds == {"snapshot", "create", "update", "delete", "tombstone", "truncate"}
    assert dead(ledger).total() == 12
    options = {
        **OPTIONS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "changes.topics": topic,
        "changes.max_records_per_batch": 400,
    }
    job = SubmittedJob("customer_history", tmp_path / "tables", tmp_path / "job.log", options)

    def left() -> tuple[list[int], list[int]]:
        return batches(job.root, "customer_history"), batches(job.root, "customers")

    if before_too:
        job.killed_at("dead_letters")
        assert left() == ([], []), "the kill came too late"
    job.killed_when(
        lambda: len(batches(job.root, "customer_history")) == 2, "two batches of history"
    )
    assert left() == ([0, 1], [0]), "the kill came too late"
    job.killed_at("customers")
    past, now = left()
    assert (past, now) == ([0, 1], [0, 1]), "the kill came too late"
    notes = job.root / "_checkpoints" / "customer_history" / "commits"
    assert not (notes / "1").exists(), "the kill came too late"

    summary = job.finished(spark)
    assert summary.skipped_batches == 1, "the batch that was in both tables"
    past, now = left()
    assert past == now == list(range(len(past)))
    require_same(read_customers(job.root / "customers"), expected_customers(ledger), "customers")
    require_same(read_history(job.root / "customer_history"), expected_history(ledger), "versions")
    require_same(read_dead(job.root / "dead_letters"), dead(ledger), "dead letters")
