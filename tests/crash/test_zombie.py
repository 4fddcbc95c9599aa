"""A driver that is stopped in the middle of a batch, and wakes when another has done its work."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce
from tidegate.testing.process import until

from .left import batches
from .submitted import SubmittedJob, at_once
from .test_kills import LATENESS_MS, WINDOW_MS, require_ledger

pytestmark = [pytest.mark.broker, pytest.mark.crash]

SEED = 27


def test_a_driver_that_wakes_beside_its_successor_is_fenced_and_changes_nothing(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(6_000, seed=SEED, broken=15)
    ledger = produce(broker.servers, topic, made, partitions=4)
    job = SubmittedJob(
        name="page_views",
        root=tmp_path / "tables",
        log=tmp_path / "successor.log",
        options={
            "kafka.servers": broker.servers,
            "input.topics": topic,
            "input.max_rows": 1_500,
            "input.lateness": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
        },
    )
    zombie = replace(job, log=tmp_path / "zombie.log").started()
    try:
        at_once(
            lambda: len(batches(job.root, "dead_letters")) > 0 or not zombie.alive,
            what="a batch that is in its first table",
        )
        os.killpg(zombie.pid, signal.SIGSTOP)
        job.run()
        os.killpg(zombie.pid, signal.SIGCONT)
        until(lambda: not zombie.alive, within=120, what="the end of the driver that woke")
        assert "FencedError" in zombie.tail(40)
    finally:
        zombie.kill()
    require_ledger(spark, job.root, ledger, topic)
    for table in ("views", "dead_letters", "late_rows"):
        written = batches(job.root, table)
        assert written == sorted(set(written)), f"{table} has a batch twice: {written}"
