"""The join job killed in its batches, by a kind of join: each row comes out once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.joins.stream_stream import How
from tidegate.testing import Broker

from ..tables import rows
from ..worlds.click_through import (
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
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
SIDES: dict[Topic, str] = {"searches": "left", "clicks": "right"}


def chosen(ledger: Ledger, how: How) -> Counter[str]:
    """Return the searches that a join by existence lets through, with all that came twice."""
    found = matched(ledger.values(), BEFORE_MS, AFTER_MS)
    return Counter(search.id for search, clicks in found if bool(clicks) == (how == "semi"))


@pytest.mark.draws("how", short=["semi"], long=["semi", "anti"])
def test_a_killed_job_lets_each_search_through_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, how: How
) -> None:
    named, ledger, max_rows = sent(broker, topic, searches(500, seed=17))
    options: dict[str, object] = {
        "kafka.servers": broker.servers,
        "join.on": '["session_id"]',
        "join.before": OPTIONS["join.before"],
        "join.after": OPTIONS["join.after"],
        "join.how": how,
    }
    for kind, side in SIDES.items():
        options |= {
            f"{side}.topics": named[kind],
            f"{side}.schema": OPTIONS[f"{kind}.schema"],
            f"{side}.lateness": OPTIONS[f"{kind}.lateness"],
            f"{side}.max_rows": max_rows[kind],
            f"output.late_{side}": f"late_{kind}",
        }
    job = SubmittedJob("join", tmp_path / "tables", tmp_path / "job.log", options)
    commits = job.root / "_checkpoints" / "join" / "commits"

    job.killed_at("join", skip=1)
    assert not (commits / str(batches(job.root, "join")[-1])).exists(), "the kill came too late"

    job.killed_at("late_searches")
    (late,) = batches(job.root, "late_searches")
    assert late not in batches(job.root, "join"), "the kill came too late"

    assert job.finished(spark).skipped == 0
    found = Counter(row["search_id"] for row in rows(job.root / "join"))
    last = "last-searches"
    assert found - Counter([last]) == chosen(ledger, how)
    require_all_rows(job.root, ledger, named)
