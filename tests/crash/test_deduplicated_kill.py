"""The deduplication killed between its target and its filter: a repeated batch does not see its own
keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.deduplicated import OPTIONS, for_ever, out, places, redelivered, within
from tests.support.crash_leftovers import batches
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.sample_clicks import send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_a_job_killed_between_target_and_filter_loses_no_row_and_repeats_none(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = send_clicks(broker.bootstrap_servers, topic, redelivered(3_000), partitions=4)
    options = {
        **OPTIONS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": topic,
        "events.max_records_per_batch": 1_000,
        "deduplicate.expected_items": 100_000,
        "deduplicate.fpp": 0.0001,
    }
    job = SubmittedJob("deduplicated", tmp_path / "tables", tmp_path / "job.log", options)

    # The second batch that writes is the first that reads keys from the filter's table.
    second = job.root / "events" / "_delta_log" / f"{1:020d}.json"
    job.killed_when(second.exists, "the second batch")
    assert (len(batches(job.root, "events")), batches(job.root, "seen")) == (2, [0]), (
        "the kill came too late"
    )

    job.finished(spark)
    assert batches(job.root, "seen") == batches(job.root, "events")
    first = for_ever(ledger)
    again = [sent for sent in within(ledger) if sent not in set(first)]
    assert places(job.root / "events") == out(first, ledger)
    assert out(again, ledger).total() > 30
    assert places(job.root / "repeated") == out(again, ledger)
    strays = Counter((s.partition, s.offset) for s in ledger if s.click.is_late)
    assert places(job.root / "late_rows") == strays
    broken = Counter((s.partition, s.offset) for s in ledger if s.click.fault)
    assert places(job.root / "dead_letters") == broken
