"""The job page_views with deterministic lateness, killed with SIGKILL: its tables equal those of an
uninterrupted run with other batches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.crash_leftovers import written
from tests.support.delta_tables import rows
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.sample_clicks import SentRecord, clicks, send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 8_000
WINDOW_MS, LATENESS_MS = 20_000, 10_000


def late(ledger: Sequence[SentRecord]) -> set[tuple[int, int]]:
    """Return the partition and offset of each row that is late by the earlier records of its
    partition."""
    newest: dict[int, float] = defaultdict(lambda: float("-inf"))
    found = set()
    for sent in sorted(ledger, key=lambda sent: (sent.partition, sent.offset)):
        if sent.click.fault is not None:
            continue
        ends = sent.click.event_time_ms // WINDOW_MS * WINDOW_MS + WINDOW_MS
        if ends <= newest[sent.partition] - LATENESS_MS:
            found.add((sent.partition, sent.offset))
        newest[sent.partition] = max(newest[sent.partition], sent.click.event_time_ms)
    return found


def results(root: Path) -> dict[str, Counter[str]]:
    """Return the rows of the target and of the late table; means are rounded."""
    return {
        name: Counter(str(_rounded(row)) for row in rows(root / name))
        for name in ("views", "late_rows")
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(at, 6) if isinstance(at, float) else at for name, at in row.items()}


@pytest.mark.timeout(600)
def test_after_kills_the_late_rows_are_those_of_the_log(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = send_clicks(broker.bootstrap_servers, topic, clicks(COUNT, seed=43), partitions=4)

    def job(name: str, max_rows: int) -> SubmittedJob:
        return SubmittedJob(
            name="page_views",
            root=tmp_path / name,
            log=tmp_path / f"{name}.log",
            options={
                "kafka.bootstrap_servers": broker.bootstrap_servers,
                "input.topics": topic,
                "input.max_records_per_batch": max_rows,
                "input.watermarks": "log",
                "input.watermark_delay": f"{LATENESS_MS} milliseconds",
                "window.size": f"{WINDOW_MS} milliseconds",
            },
        )

    killed = job("killed", COUNT // 4)
    killed.killed_at("late_rows")
    killed.finished(spark)
    # Killed once its late rows are written, before its windows are.
    interrupted = job("backlog", COUNT)
    interrupted.killed_at("late_rows", "--backfill")
    assert not written(interrupted.root / "views" / "_delta_log"), "killed too late"
    interrupted.finished(spark)
    whole = job("whole", COUNT)
    whole.finished(spark)

    expected = results(whole.root)
    assert results(killed.root) == expected
    assert results(interrupted.root) == expected
    places = rows(whole.root / "late_rows", ["partition", "offset"])
    assert {(row["partition"], row["offset"]) for row in places} == late(ledger)
    assert len(places) > 10
