"""The page views job killed with SIGKILL while it works a backlog off: the tables equal the
ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.test_kills import LATENESS_MS, WINDOW_MS, require_ledger
from tests.support.crash_leftovers import batches, checkpoint, written
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 10_000


@pytest.mark.timeout(600)
def test_a_backfill_whose_driver_is_killed_between_its_tables_writes_each_table_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Killed once the dead letters of the batch are written, and started again without the
    switch: an interrupted backfill is finished as a backfill."""
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(COUNT, seed=41, broken=COUNT // 400)
    # The last third, with the late rows, is sent after the kill: the stream reads it.
    before, after = made[: COUNT * 2 // 3], made[COUNT * 2 // 3 :]
    ledger = send_clicks(broker.bootstrap_servers, topic, before, partitions=4)
    job = SubmittedJob(
        name="page_views",
        root=tmp_path / "tables",
        log=tmp_path / "job.log",
        options={
            "kafka.bootstrap_servers": broker.bootstrap_servers,
            "input.topics": topic,
            "input.watermark_delay": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
        },
    )
    job.killed_at("dead_letters", "--backfill")
    assert batches(job.root, "dead_letters") == [0]
    assert not written(job.root / "views" / "_delta_log"), "killed too late: seek another point"
    assert not (checkpoint(job.root) / "offsets").exists()
    ledger += send_clicks(broker.bootstrap_servers, topic, after, partitions=4)
    summary = job.finished(spark)
    assert summary.rows_in == COUNT
    require_ledger(spark, job.root, ledger, topic)
