"""A job that catches up has the results of a job that never stopped: only event time counts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import crash_oracle as oracle
from tests.support.job_under_test import LATENESS_MS, WINDOW_MS, Filling, page_views
from tidegate import run
from tidegate.jobs.sample_clicks import clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]

SEED, COUNT = 31, 5_000
STEPS = (0, 1_000, 3_000, 5_000)
"""One click a second: the second job drains the first step, then is away for 67 minutes of event
time."""


@pytest.mark.parametrize(
    ("batch_rows", "late_share"),
    [(1_000, 0.01), (COUNT, 0.0)],
    ids=["batches", "one batch"],
)
def test_a_job_that_catches_up_has_the_windows_of_a_job_that_never_stopped(
    batch_rows: int,
    late_share: float,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    made = clicks(COUNT, seed=SEED, rate=1.0, pages=20, late_share=late_share)
    print(f"seed {SEED}")
    filling = Filling(broker, topic)
    steady = page_views(broker, topic, tmp_path / "steady", {"input.max_records_per_batch": 1_000})
    away = page_views(broker, topic, tmp_path / "away", {"input.max_records_per_batch": batch_rows})
    for number, (begin, end) in enumerate(pairwise(STEPS)):
        filling.add(made[begin:end])
        assert run(steady, spark).rows_in == end - begin
        if number == 0:
            assert run(away, spark).rows_in == end - begin
    assert run(away, spark).rows_in == COUNT - STEPS[1]

    ledger = filling.ledger
    closed = oracle.closed(oracle.windows(ledger, WINDOW_MS), oracle.watermark(ledger, LATENESS_MS))
    for name in ("steady", "away"):
        root = tmp_path / name
        oracle.require_same(
            oracle.read_by_spark(spark, root / "views"), closed, f"windows of the job {name}"
        )
        oracle.require_same(
            oracle.read_dead(root / "dead_letters"), oracle.dead(ledger, topic), f"dead, {name}"
        )
        oracle.require_same(
            oracle.read_late(root / "late_rows"), oracle.late(ledger, topic), f"late, {name}"
        )

    # All records are read at once: by processing time there would be a spike.
    by_minute = Counter[int]()
    for row, count in oracle.read_by_deltalake(tmp_path / "away" / "views").items():
        by_minute[row[0]] += row[3] * count
    assert max(by_minute.values()) < 2 * 60
