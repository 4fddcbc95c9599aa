"""The timelines job killed between its tables: what runs again finds the tables below as they were
before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.testing import Broker

from ..worlds.timelines import TOPICS, Topic, events, expected, options, read_timelines, send
from .left import batches
from .oracle import require_same
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("timelines", "named_posts", "posts", "users", "follows")
"""In the order in which a batch is written to them."""


@pytest.mark.draws(
    "kills",
    short=[[("timelines", 0), ("posts", 0)]],
    long=[[(table, number) for number in range(2) for table in TABLES[:-1]]],
)
def test_a_job_killed_between_its_tables_loses_no_change_and_repeats_none(
    broker: Broker, topic: str, tmp_path: Path, kills: list[tuple[str, int]]
) -> None:
    topics: dict[Topic, str] = {
        name: broker.create_topic(f"{topic}-{name}", partitions=2, retention_ms=-1)
        for name in TOPICS
    }
    made = events(800, users=30)
    send(broker.servers, topics, made)
    limits = {f"{name}.max_rows": 260 for name in TOPICS}
    job = SubmittedJob(
        "timelines",
        tmp_path / "tables",
        tmp_path / "job.log",
        {**options(broker, topics), **limits},
    )

    for table, number in kills:
        job.killed_at(table)
        behind = [name for name in TABLES if batches(job.root, name)[-1:] != [number]]
        assert behind == list(TABLES[TABLES.index(table) + 1 :]), "the kill came too late"

    summary = job.run()
    assert summary["skipped"] == 1, "the view had the batch that was killed"
    assert [batches(job.root, name) for name in TABLES] == [[0, 1]] * len(TABLES)
    require_same(read_timelines(job.root), expected(made), "timelines")
