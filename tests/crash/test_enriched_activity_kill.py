"""The enriching job killed between its tables: what runs again finds what it found before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tidegate.testing import Broker

from ..tables import rows
from ..worlds.enriched_activity import read_enriched, sent
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("profile_versions", "activity", "waiting")
"""In the order in which a batch writes them."""


@pytest.mark.draws("kills", short=[TABLES[:2]], long=[TABLES])
def test_a_job_killed_between_its_tables_loses_no_row_and_repeats_none(
    broker: Broker, topic: str, tmp_path: Path, kills: tuple[str, ...]
) -> None:
    world, root = sent(broker, topic), tmp_path / "tables"
    sizes = {"activity.max_rows": 800, "profiles.max_rows": 240}
    options = {**world.options, **sizes, "enrich.way": "changelog"}
    submitted = SubmittedJob("enriched_activity", root, tmp_path / "job.log", options)
    for number, table in enumerate(kills):
        submitted.killed_at(table)
        newest = batches(root, table)[-1]
        done = [newest in batches(root, written) for written in TABLES]
        assert done == [index <= number for index in range(len(TABLES))], (
            f"the kill in {table} came too late: {done}"
        )
        assert not (root / "_checkpoints" / "enriched_activity" / "commits" / str(newest)).exists()
    summary = submitted.run()
    assert summary["skipped"] == 1
    assert read_enriched(root / "activity") == world.decided
    assert Counter(row["event_id"] for row in rows(root / "waiting")) == world.waiting
    assert len(rows(root / "profile_versions")) == sum(map(len, world.changes.values()))
    assert len(rows(root / "dead_letters")) == 5
    for table in TABLES:
        assert len(set(batches(root, table))) == len(batches(root, table))
