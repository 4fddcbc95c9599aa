"""The join job killed in its batches, by a kind of join: each row is written once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.click_through import (
    AFTER_MS,
    BEFORE_MS,
    OPTIONS,
    Ledger,
    Topic,
    matched,
    require_all_rows,
    searches,
    sent,
)
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.spark_submit import SubmittedJob
from tidegate.joins.interval_join import IntervalJoinType
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
SIDES: dict[Topic, str] = {"searches": "left", "clicks": "right"}


def chosen(ledger: Ledger, how: IntervalJoinType) -> Counter[str]:
    """Return the results of a semi or anti join of the searches, including duplicated records."""
    found = matched(ledger.values(), BEFORE_MS, AFTER_MS)
    return Counter(search.id for search, clicks in found if bool(clicks) == (how == "semi"))


@pytest.mark.draws("how", short=["semi"], long=["semi", "anti"])
def test_a_killed_job_writes_each_search_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, how: IntervalJoinType
) -> None:
    named, ledger, max_rows = sent(broker, topic, searches(500, seed=17))
    options: dict[str, object] = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "join.on": '["session_id"]',
        "join.before": OPTIONS["join.before"],
        "join.after": OPTIONS["join.after"],
        "join.how": how,
    }
    for kind, side in SIDES.items():
        options |= {
            f"{side}.topics": named[kind],
            f"{side}.schema": OPTIONS[f"{kind}.schema"],
            f"{side}.watermark_delay": OPTIONS[f"{kind}.watermark_delay"],
            f"{side}.max_records_per_batch": max_rows[kind],
            f"output.late_{side}": f"late_{kind}",
        }
    job = SubmittedJob("join", tmp_path / "tables", tmp_path / "job.log", options)
    commits = job.root / "_checkpoints" / "join" / "commits"

    job.killed_at("join", skip=1)
    assert not (commits / str(batches(job.root, "join")[-1])).exists(), "the kill came too late"

    job.killed_at("late_searches")
    (late,) = batches(job.root, "late_searches")
    assert late not in batches(job.root, "join"), "the kill came too late"

    assert job.finished(spark).skipped_batches == 0
    found = Counter(row["search_id"] for row in rows(job.root / "join"))
    last = "last-searches"
    assert found - Counter([last]) == chosen(ledger, how)
    require_all_rows(job.root, ledger, named)
