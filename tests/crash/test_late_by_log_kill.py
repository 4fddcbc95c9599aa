"""The page views job, whose rows are late by the log, killed with SIGKILL: the tables are those of
a run that nothing stopped, whose batches are others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import Sent, produce

from ..tables import rows
from .left import written
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 8_000
WINDOW_MS, LATENESS_MS = 20_000, 10_000


def late(ledger: Sequence[Sent]) -> set[tuple[int, int]]:
    """Return the partition and offset of each row that is late by what came before it there."""
    newest: dict[int, float] = defaultdict(lambda: float("-inf"))
    found = set()
    for sent in sorted(ledger, key=lambda sent: (sent.partition, sent.offset)):
        if sent.click.fault is not None:
            continue
        ends = sent.click.at // WINDOW_MS * WINDOW_MS + WINDOW_MS
        if ends <= newest[sent.partition] - LATENESS_MS:
            found.add((sent.partition, sent.offset))
        newest[sent.partition] = max(newest[sent.partition], sent.click.at)
    return found


def told(root: Path) -> dict[str, Counter[str]]:
    """Return the rows of the target and of the late table; means hang on the order of adding up."""
    return {
        name: Counter(str(_rounded(row)) for row in rows(root / name))
        for name in ("views", "late_rows")
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(at, 6) if isinstance(at, float) else at for name, at in row.items()}


@pytest.mark.timeout(600)
def test_after_kills_the_late_rows_are_those_that_the_log_says(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = produce(broker.servers, topic, clicks(COUNT, seed=43), partitions=4)

    def job(name: str, max_rows: int) -> SubmittedJob:
        return SubmittedJob(
            name="page_views",
            root=tmp_path / name,
            log=tmp_path / f"{name}.log",
            options={
                "kafka.servers": broker.servers,
                "input.topics": topic,
                "input.max_rows": max_rows,
                "input.watermarks": "log",
                "input.lateness": f"{LATENESS_MS} milliseconds",
                "window.size": f"{WINDOW_MS} milliseconds",
            },
        )

    killed = job("killed", COUNT // 4)
    killed.killed_at("late_rows")
    killed.finished(spark)
    # Killed once its late rows are written, before its windows are.
    begun = job("backlog", COUNT)
    begun.killed_at("late_rows", "--backlog")
    assert not written(begun.root / "views" / "_delta_log"), "killed too late"
    begun.finished(spark)
    whole = job("whole", COUNT)
    whole.finished(spark)

    expected = told(whole.root)
    assert told(killed.root) == expected
    assert told(begun.root) == expected
    places = rows(whole.root / "late_rows", ["partition", "offset"])
    assert {(row["partition"], row["offset"]) for row in places} == late(ledger)
    assert len(places) > 10
