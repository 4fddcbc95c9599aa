"""A backlog that dies after each of its commits, and in its stream, ends with the same tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engine.test_backfill import HOPS, BackfillTopics
from tests.support.delta_tables import rows
from tidegate import compare, run
from tidegate.errors import TidegateError
from tidegate.joins import IntervalJoin
from tidegate.testing import Broker, CrashError, crash_after
from tidegate.transform import Transform

pytestmark = [pytest.mark.broker, pytest.mark.crash]


NEAR = IntervalJoin("page", within=("1 second", "2 seconds"), how="inner")


@pytest.mark.parametrize(
    ("transform", "in_stream", "late"),
    [(HOPS, 2, ["late"]), (NEAR, 1, ["late_left", "late_right"])],
    ids=["hops", "join"],
)
def test_a_backfill_killed_after_each_of_its_commits_ends_with_the_same_rows(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    transform: Transform,
    in_stream: int,
    late: list[str],
) -> None:
    """in_stream: a batch of the stream that has rows. late: the tables of late rows, an input
    each."""
    topics = tuple(f"{topic}-{number}" for number in range(len(late)))
    for each in topics:
        broker.create_topic(each, partitions=2, retention_ms=-1)
    world = BackfillTopics(broker, tmp_path, topics)
    world.send(0, 100, "no record")
    for number, (table, batch) in enumerate(
        [("rows.dead_letters", 0), ("rows", 0), ("rows", in_stream), (f"rows.{late[0]}", None)]
    ):
        # Records that arrive meanwhile belong to the stream.
        world.send(100 + 20 * number, 120 + 20 * number, 30, "nor this")
        place = tmp_path / table
        with crash_after(place, batch=batch), pytest.raises((CrashError, TidegateError)):
            run(world.job(transform, backfill_threshold=0 if number == 0 else None), spark)
    done = run(world.job(transform), spark)
    assert done.rows_in
    aside = world.side_offsets("dead_letters")
    assert (len(aside), max(aside.values())) == (10 * len(late), 1)
    for table in late:
        found_late = world.side_offsets(table)
        assert (len(found_late), max(found_late.values())) == (6, 1)
    found = compare(world.job(transform), spark)
    assert found.is_empty, str(found)
    # Matches are out before the watermark has passed them, and are not compared then.
    each_row = Counter(map(str, rows(tmp_path / "rows")))
    early = len(each_row) - (found.expected_rows - found.not_due)
    assert early >= 0 if transform is NEAR else early == 0
    assert max(each_row.values()) == 1
