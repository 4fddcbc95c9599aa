"""A backlog that dies after each of its commits, and in its stream, ends with the same tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import TidegateError
from tidegate.runtime.query.compare import compare
from tidegate.runtime.query.run import run
from tidegate.testing import Broker, CrashError, crash_after

from ..runtime.test_backlog import HOPS, World
from ..tables import rows

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_a_backlog_that_dies_after_each_of_its_commits_ends_with_the_same_rows(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    world = World(broker, tmp_path, (topic,))
    world.send(0, 100, "no record")
    for number, (table, batch) in enumerate(
        [("rows.dead_letters", 0), ("rows", 0), ("rows", 2), ("rows.late", None)]
    ):
        # What comes meanwhile is the stream's.
        world.send(100 + 20 * number, 120 + 20 * number, 30, "nor this")
        place = tmp_path / table
        with crash_after(place, batch=batch), pytest.raises((CrashError, TidegateError)):
            run(world.job(HOPS, backlog=0 if number == 0 else None), spark)
    done = run(world.job(HOPS), spark)
    assert done.rows_in
    aside = world.aside("dead_letters")
    assert (len(aside), max(aside.values())) == (10, 1)
    late = world.aside("late")
    assert (len(late), max(late.values())) == (6, 1)
    found = compare(world.job(HOPS), spark)
    assert found.agree, str(found)
    assert len(rows(tmp_path / "rows")) == found.rows - found.due
