"""A snapshot and then its log: the same table as the whole log makes, whatever is read again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.changes import after_snapshot, newest
from tidegate.errors import ReplayMismatchError
from tidegate.runtime import begin
from tidegate.sinks import Current

from ..sinks.batches import batch
from .frames import COLUMNS, at, changes, living
from .oracle import Change, current

pytestmark = pytest.mark.slow

SEAM = 60


def drawn(draw: random.Random) -> list[Change]:
    """Return a log of changes at the positions 1 to 120; some keys are deleted before the seam."""
    log: list[Change] = []
    for number in range(1, 121):
        key = f"k{draw.randrange(25)}"
        op = draw.choice(["create", "update", "delete"])
        log.append(Change(op, key, None if op == "delete" else f"v{number}", (number,), number))
    return log


@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_a_log_that_begins_before_its_snapshot_adds_nothing_and_wakes_no_deleted_row(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    log = drawn(random.Random(seed))
    held = current(log[:SEAM])
    rows = spark.createDataFrame([*held.items()], COLUMNS)
    table = Current(str(tmp_path / "t"))
    for outcome in ("written", "skipped"):
        done = begin(rows, table, job="customers", key="id", position=[SEAM], at=at(SEAM))
        assert done == outcome
    with pytest.raises(ReplayMismatchError):
        begin(rows, table, job="customers", key="id", position=[SEAM + 1], at=at(SEAM))
    read = changes(spark, log[20:])
    table.write({"rows": after_snapshot(read, position=[SEAM])}, batch(0))
    assert living(table.rows(spark).collect()) == current(log)
    # The partition begins with the 21st change.
    cut = after_snapshot(read, offsets={"t": {0: SEAM - 20}})
    assert living(newest(cut).where("NOT deleted").collect()) == current(log[SEAM:])


def test_tombstones_are_kept_for_a_time_and_no_longer(spark: SparkSession, tmp_path: Path) -> None:
    table = Current(str(tmp_path / "t"), keep_deleted="10 seconds")
    first = [
        Change("create", "a", "x", (1,), 0),
        Change("delete", "b", None, (2,), 0),
        Change("delete", "c", None, (3,), 5_000),
    ]
    table.write({"rows": changes(spark, first)}, batch(0))
    later = changes(spark, [Change("create", "d", "x", (4,), 12_000)], 3)
    for number, left in ((48, ["a", "b", "c", "d"]), (49, ["a", "c", "d"])):
        table.write({"rows": later}, batch(number))
        stored = spark.read.format("delta").load(table.path)
        assert sorted(row.id for row in stored.collect()) == left
