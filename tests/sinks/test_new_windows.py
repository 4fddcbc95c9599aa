"""Windows that follow those of a table: appended without a look at it, as long as that is sure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, partials
from tidegate.jvm import DeltaState
from tidegate.jvm.queries import executions, scans
from tidegate.sinks import Corrected
from tidegate.sinks._window_changes import WindowChanges
from tidegate.windows import Tumbling, Windowed, tumbling

from .batches import batch, by_another

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
MINUTES = Windowed(Tumbling("1 minute"), by="page", aggs=AGGS)


class World:
    """A table of minutes, and the batches that are written to it one after another.

    now: the watermark of the last batch, in minutes; the rows of earlier ones are late.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.sink = Corrected(
            str(folder / "views"), windowed=MINUTES, log=str(folder / "log"), step="windows"
        )
        self.number = 0
        self.now = 0

    def write(self, watermark: int, *minutes: int) -> int:
        """Write rows of these minutes; return how often the table was read for it."""
        before = executions(self.spark)
        rows = self.spark.createDataFrame(
            [(AT + timedelta(minutes=at, seconds=1), "/") for at in minutes],
            "event_time timestamp, page string",
        )
        given = batch(
            self.number,
            watermark=AT + timedelta(minutes=watermark),
            late_watermark=AT + timedelta(minutes=self.now),
        )
        frame = tumbling(rows, "1 minute", by="page", aggs=partials(AGGS))
        self.sink.write({"rows": frame}, given)
        self.number += 1
        self.now = watermark
        # Nothing else that is read has windows: rows come from Python, and the log is appended to.
        return sum("window#" in told for told, _ in scans(self.spark, before))

    def current(self) -> list[tuple[int, int, int, bool]]:
        """Return each minute, how many rows it has, its version and whether it is final."""
        minute = (F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))) / 60
        table = self.spark.read.format("delta").load(self.sink.path)
        found = table.select(minute.cast("int"), "n", "version", "final").collect()
        return sorted(tuple(row) for row in found)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    """Return a table with the windows of two batches, which is known by now."""
    made = World(spark, tmp_path)
    made.write(1, 0, 0)
    made.write(2, 1)
    return made


@pytest.mark.slow
def test_windows_that_follow_are_appended_without_a_look_at_the_table(world: World) -> None:
    assert world.write(3, 2, 2, 2) == 0
    assert world.write(5, 3, 4) == 0
    assert world.write(6) == 0
    assert world.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 3, 1, True),
        (3, 1, 1, True),
        (4, 1, 1, True),
    ]


@pytest.mark.slow
def test_a_straggler_meets_its_window_and_the_next_batch_looks_again(world: World) -> None:
    assert world.write(3, 2, 0) > 0
    assert world.write(4, 3) > 0
    assert world.write(5, 4) == 0
    assert world.current() == [
        (0, 3, 2, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 1, 1, True),
        (4, 1, 1, True),
    ]


@pytest.mark.slow
def test_windows_that_are_open_are_met_by_what_comes_later(world: World) -> None:
    assert world.write(3, 2, 5) > 0
    assert world.write(6, 3, 5) > 0
    assert world.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 1, 1, True),
        (5, 2, 1, True),
    ]


def put_ahead(world: World, minutes: int) -> None:
    """Put a window into the table, as another writer, that a later batch has too."""
    table = world.spark.read.format("delta").load(world.sink.path)
    moved = F.expr(
        f"named_struct('start', window.start + interval {minutes} minutes, "
        f"'end', window.end + interval {minutes} minutes)"
    )
    other = table.where("n = 2").withColumn("window", moved)
    by_another(lambda: other.write.format("delta").mode("append").save(world.sink.path))


@pytest.mark.slow
def test_what_another_writer_has_done_is_seen(world: World) -> None:
    put_ahead(world, 2)
    assert world.write(3, 2) > 0
    assert world.current() == [(0, 2, 1, True), (1, 1, 1, True), (2, 3, 2, True)]


@pytest.mark.slow
def test_what_another_writer_does_between_the_look_and_the_commit_is_seen_by_the_next_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = WindowChanges.against

    def and_then(
        changes: WindowChanges, state: DeltaState, path: str
    ) -> tuple[DataFrame, bool | None]:
        found = looked(changes, state, path)
        put_ahead(world, 3)
        return found

    with monkeypatch.context() as during:
        during.setattr(WindowChanges, "against", and_then)
        world.write(3, 2)
    assert world.write(4, 3) > 0
    assert world.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 3, 2, True),
    ]
