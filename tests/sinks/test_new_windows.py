"""Windows after all stored windows are appended without reading the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.scan_metrics import count_executions, parquet_scan_metrics
from tests.support.sink_batches import as_another_writer, batch
from tidegate.aggregates import count, partials
from tidegate.jvm import DeltaState
from tidegate.sinks import CorrectedWindows
from tidegate.sinks.windows.corrected_windows import WindowChanges
from tidegate.windows import Tumbling, WindowAggregation, tumbling

pytestmark = pytest.mark.jobs

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
MINUTES = WindowAggregation(Tumbling("1 minute"), by="page", aggs=AGGS)


class MinutesTable:
    """A table of minutes, and the batches that are written to it.

    now: the watermark of the last batch in minutes; rows of earlier minutes are late.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.sink = CorrectedWindows(
            str(folder / "views"), aggregation=MINUTES, log=str(folder / "log"), output="windows"
        )
        self.number = 0
        self.now = 0

    def write(self, watermark: int, *minutes: int) -> int:
        """Write rows of these minutes; return how often the table was read."""
        before = count_executions(self.spark)
        rows = self.spark.createDataFrame(
            [(AT + timedelta(minutes=at, seconds=1), "/") for at in minutes],
            "event_time timestamp, page string",
        )
        next_batch = batch(
            self.number,
            watermark=AT + timedelta(minutes=watermark),
            late_watermark=AT + timedelta(minutes=self.now),
        )
        frame = tumbling(rows, "1 minute", by="page", aggs=partials(AGGS))
        self.sink.write({"rows": frame}, next_batch)
        self.number += 1
        self.now = watermark
        # Only scans of the table contain windows.
        return sum("window#" in scan for scan, _ in parquet_scan_metrics(self.spark, before))

    def current(self) -> list[tuple[int, int, int, bool]]:
        """Return each minute, its number of rows, its version and whether it is final."""
        minute = (F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))) / 60
        table = self.spark.read.format("delta").load(self.sink.path)
        rows = table.select(minute.cast("int"), "n", "version", "final").collect()
        return sorted(tuple(row) for row in rows)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> MinutesTable:
    """Return a table with the windows of two batches."""
    minutes = MinutesTable(spark, tmp_path)
    minutes.write(1, 0, 0)
    minutes.write(2, 1)
    return minutes


@pytest.mark.slow
def test_later_windows_are_appended_without_reading_the_table(table: MinutesTable) -> None:
    assert table.write(3, 2, 2, 2) == 0
    assert table.write(5, 3, 4) == 0
    assert table.write(6) == 0
    assert table.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 3, 1, True),
        (3, 1, 1, True),
        (4, 1, 1, True),
    ]


@pytest.mark.slow
def test_a_late_row_updates_its_window_and_the_next_batch_reads_the_table(
    table: MinutesTable,
) -> None:
    assert table.write(3, 2, 0) > 0
    assert table.write(4, 3) > 0
    assert table.write(5, 4) == 0
    assert table.current() == [
        (0, 3, 2, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 1, 1, True),
        (4, 1, 1, True),
    ]


@pytest.mark.slow
def test_open_windows_are_updated_by_later_batches(table: MinutesTable) -> None:
    assert table.write(3, 2, 5) > 0
    assert table.write(6, 3, 5) > 0
    assert table.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 1, 1, True),
        (5, 2, 1, True),
    ]


def insert_window(table: MinutesTable, minutes: int) -> None:
    """Add a window as another writer, which a later batch also contains."""
    stored = table.spark.read.format("delta").load(table.sink.path)
    moved = F.expr(
        f"named_struct('start', window.start + interval {minutes} minutes, "
        f"'end', window.end + interval {minutes} minutes)"
    )
    other = stored.where("n = 2").withColumn("window", moved)
    as_another_writer(lambda: other.write.format("delta").mode("append").save(table.sink.path))


@pytest.mark.slow
def test_commits_of_another_writer_are_detected(table: MinutesTable) -> None:
    insert_window(table, 2)
    assert table.write(3, 2) > 0
    assert table.current() == [(0, 2, 1, True), (1, 1, 1, True), (2, 3, 2, True)]


@pytest.mark.slow
def test_a_commit_of_another_writer_during_a_batch_is_detected_by_the_next_batch(
    table: MinutesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_with_table = WindowChanges.compare_with_table

    def compare_then_insert(
        changes: WindowChanges, state: DeltaState, path: str
    ) -> tuple[DataFrame, bool | None]:
        compared = compare_with_table(changes, state, path)
        insert_window(table, 3)
        return compared

    with monkeypatch.context() as patch:
        patch.setattr(WindowChanges, "compare_with_table", compare_then_insert)
        table.write(3, 2)
    assert table.write(4, 3) > 0
    assert table.current() == [
        (0, 2, 1, True),
        (1, 1, 1, True),
        (2, 1, 1, True),
        (3, 3, 2, True),
    ]
