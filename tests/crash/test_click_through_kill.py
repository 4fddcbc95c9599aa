"""The click-through job killed in its batches: planned, rates written, late rows written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.click_through import (
    OPTIONS,
    TOPICS,
    rates,
    read_rates,
    require_all_rows,
    searches,
    sent,
)
from tests.support.crash_leftovers import batches
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLE = "click_through"


@pytest.mark.draws("planned_too", short=[False], long=[True])
def test_a_killed_job_has_the_rates_of_the_ledger_and_every_rejected_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, planned_too: bool
) -> None:
    named, ledger, max_rows = sent(broker, topic, searches(500, seed=7))
    options: dict[str, object] = {**OPTIONS, "kafka.bootstrap_servers": broker.bootstrap_servers}
    for kind in TOPICS:
        options[f"{kind}.topics"] = named[kind]
        options[f"{kind}.max_records_per_batch"] = max_rows[kind]
    job = SubmittedJob(TABLE, tmp_path / "tables", tmp_path / "job.log", options)
    checkpoint = job.root / "_checkpoints" / TABLE

    if planned_too:
        job.killed_when((checkpoint / "offsets" / "1").exists, "the plan of the second batch")
        assert batches(job.root, TABLE) == [0], "the kill came too late"

    job.killed_at(TABLE)
    newest = batches(job.root, TABLE)[-1]
    assert not (checkpoint / "commits" / str(newest)).exists(), "the kill came too late"

    job.killed_at("late_searches")
    (late,) = batches(job.root, "late_searches")
    assert late not in batches(job.root, TABLE), "the kill came too late"

    assert job.finished(spark).skipped_batches == 0
    assert read_rates(job.root / TABLE) == rates(ledger)
    require_all_rows(job.root, ledger, named)
