"""The job of standing queries killed between its tables: what runs again finds what was there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tidegate.testing import Broker

from ..tables import rows
from ..worlds.standing_queries import NO_QUERIES, read_matches, sent
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("queries", "matches", "waiting")
"""In the order in which a batch writes them."""


@pytest.mark.draws("kills", short=[("matches",)], long=[TABLES])
def test_a_job_killed_between_its_tables_loses_no_match_and_repeats_none(
    broker: Broker, topic: str, tmp_path: Path, kills: tuple[str, ...]
) -> None:
    world, root = sent(broker, topic), tmp_path / "tables"
    sizes = {"documents.max_rows": 150, "queries.max_rows": 60}
    options = {**world.options, **sizes}
    submitted = SubmittedJob("standing_queries", root, tmp_path / "job.log", options)
    for table in kills:
        submitted.killed_at(table)
        newest = batches(root, table)[-1]
        committed = root / "_checkpoints" / "standing_queries" / "commits" / str(newest)
        assert not committed.exists()
    submitted.run()
    assert read_matches(root / "matches") == world.decided
    assert Counter(row["doc"] for row in rows(root / "waiting")) == world.waiting
    assert len(rows(root / "dead_letters")) == len(NO_QUERIES)
    for table in TABLES:
        assert len(set(batches(root, table))) == len(batches(root, table))
