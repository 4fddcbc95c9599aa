"""A checkpoint restored older than its tables: the job is refused by name, and no row is lost or
doubled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import crash_oracle as oracle
from tests.support.crash_leftovers import batches, checkpoint
from tests.support.job_under_test import LATENESS_MS, WINDOW_MS, Filling, page_views
from tidegate import run
from tidegate.errors import TableMismatchError
from tidegate.jobs.sample_clicks import clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]

SEED = 51


# The second case cuts the backlog smaller than before, so that the first batches close no window
# and write nothing.
@pytest.mark.parametrize("batch_rows", [1_000, 40])
def test_the_job_is_refused_before_it_writes_a_row_twice(
    batch_rows: int, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    made = clicks(2_400, seed=SEED, rate=5.0, pages=5, late_share=0.0)
    filling = Filling(broker, topic)
    root, aside = tmp_path / "tables", tmp_path / "aside"
    job = page_views(broker, topic, root, {"input.max_records_per_batch": 1_000})
    filling.add(made[:1_000])
    run(job, spark)
    shutil.copytree(checkpoint(root), aside)
    filling.add(made[1_000:1_600])
    run(job, spark)
    before = {name: batches(root, name) for name in ("views", "dead_letters")}
    reached = oracle.closed(
        oracle.windows(filling.ledger, WINDOW_MS), oracle.watermark(filling.ledger, LATENESS_MS)
    )
    oracle.require_same(oracle.read_by_deltalake(root / "views"), reached, "windows before")

    shutil.rmtree(checkpoint(root))
    shutil.copytree(aside, checkpoint(root))
    filling.add(made[1_600:])
    with pytest.raises(TableMismatchError):
        run(page_views(broker, topic, root, {"input.max_records_per_batch": batch_rows}), spark)
    assert {name: batches(root, name) for name in before} == before
    oracle.require_same(oracle.read_by_deltalake(root / "views"), reached, "windows after")
