"""A driver that is stopped in the middle of a batch, and wakes when another has done its work."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.test_kills import LATENESS_MS, WINDOW_MS, require_ledger
from tests.support.crash_leftovers import batches
from tests.support.spark_submit import SubmittedJob, at_once
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.testing import Broker
from tidegate.testing.child_process import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash]

SEED = 27


def test_a_driver_that_resumes_after_its_successor_started_is_fenced_and_changes_nothing(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(6_000, seed=SEED, broken=15)
    ledger = send_clicks(broker.bootstrap_servers, topic, made, partitions=4)
    job = SubmittedJob(
        name="page_views",
        root=tmp_path / "tables",
        log=tmp_path / "successor.log",
        options={
            "kafka.bootstrap_servers": broker.bootstrap_servers,
            "input.topics": topic,
            "input.max_records_per_batch": 1_500,
            "input.watermark_delay": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
        },
    )
    zombie = replace(job, log=tmp_path / "zombie.log").started()
    try:
        at_once(
            lambda: len(batches(job.root, "dead_letters")) > 0 or not zombie.is_alive,
            what="a batch that is in its first table",
        )
        os.killpg(zombie.pid, signal.SIGSTOP)
        job.run()
        os.killpg(zombie.pid, signal.SIGCONT)
        wait_until(
            lambda: not zombie.is_alive, timeout=120, event="the end of the driver that woke"
        )
        assert "FencedError" in zombie.tail(40)
    finally:
        zombie.kill()
    require_ledger(spark, job.root, ledger, topic)
    for table in ("views", "dead_letters", "late_rows"):
        written = batches(job.root, table)
        assert written == sorted(set(written)), f"{table} has a batch twice: {written}"
