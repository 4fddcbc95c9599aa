"""The page views job killed with SIGKILL while it works a backlog off: the tables equal the
ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce

from .left import batches, checkpoint, written
from .submitted import SubmittedJob
from .test_kills import LATENESS_MS, WINDOW_MS, require_ledger

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 10_000


@pytest.mark.timeout(600)
def test_a_backlog_whose_driver_is_killed_between_its_tables_is_in_each_of_them_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Killed once the dead letters of the batch are written, and started again without the
    switch: a backlog that was begun is finished as it was begun."""
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(COUNT, seed=41, broken=COUNT // 400)
    # The last third, where the stragglers are, comes after the kill: the stream reads it.
    before, after = made[: COUNT * 2 // 3], made[COUNT * 2 // 3 :]
    ledger = produce(broker.servers, topic, before, partitions=4)
    job = SubmittedJob(
        name="page_views",
        root=tmp_path / "tables",
        log=tmp_path / "job.log",
        options={
            "kafka.servers": broker.servers,
            "input.topics": topic,
            "input.lateness": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
        },
    )
    job.killed_at("dead_letters", "--backlog")
    assert batches(job.root, "dead_letters") == [0]
    assert not written(job.root / "views" / "_delta_log"), "killed too late: seek another point"
    assert not (checkpoint(job.root) / "offsets").exists()
    ledger += produce(broker.servers, topic, after, partitions=4)
    summary = job.finished(spark)
    assert summary.rows_in == COUNT
    require_ledger(spark, job.root, ledger, topic)
