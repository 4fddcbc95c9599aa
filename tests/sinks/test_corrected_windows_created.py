"""Windows after all stored windows are appended without reading the table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import is_there
from tests.support.scan_metrics import ScanRecorder
from tests.support.sink_batches import batch
from tidegate.aggregates import count, partials
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.delta import delta_table as table
from tidegate.delta.commit_options import CommitOptions
from tidegate.errors import TableError
from tidegate.sinks import CorrectedWindows
from tidegate.testing.child_process import wait_until
from tidegate.windows import Tumbling, WindowAggregation, tumbling

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
WATERMARKS = [UNIX_EPOCH, *(AT + timedelta(seconds=at) for at in (100, 200, 300))]


def sink_in(folder: Path) -> CorrectedWindows:
    views = WindowAggregation(Tumbling("10 seconds"), aggs=AGGS)
    return CorrectedWindows(str(folder / "views"), aggregation=views, log=str(folder / "log"))


def windows(spark: SparkSession, seconds: Sequence[int]) -> DataFrame:
    """Return the partials of events at these seconds."""
    times = [(AT + timedelta(seconds=at),) for at in seconds]
    events = spark.createDataFrame(times, "event_time timestamp")
    return tumbling(events, "10 seconds", aggs=partials(AGGS))


def write(spark: SparkSession, sink: CorrectedWindows, number: int, *seconds: int) -> ScanRecorder:
    """Write a batch whose watermark is one of WATERMARKS; return what it read."""
    next_batch = batch(number, late_watermark=WATERMARKS[number], watermark=WATERMARKS[number + 1])
    with ScanRecorder(spark) as scans:
        assert sink.write({"rows": windows(spark, seconds)}, next_batch) == "written"
    return scans


def counted(spark: SparkSession, sink: CorrectedWindows) -> dict[int, int]:
    """Return the number of events by window start in seconds; each window occurs once."""
    start = F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))
    rows = spark.read.format("delta").load(sink.path).select(start, "n").collect()
    counts = {row[0]: row[1] for row in rows}
    assert len(counts) == len(rows)
    return counts


@pytest.mark.parametrize("first", [[10, 20], []], ids=["windows", "nothing"])
def test_later_windows_are_appended_without_reading_the_table_from_the_first_batch_on(
    first: list[int], spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_in(tmp_path)
    write(spark, sink, 0, *first)
    later = [write(spark, sink, 1, 110, 115), write(spark, sink, 2, 250)]
    assert [scans.tables.get("views") for scans in later] == [None, None]
    assert counted(spark, sink) == dict.fromkeys(first, 1) | {110: 2, 250: 1}


def test_a_window_that_the_first_batch_left_open_is_updated_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_in(tmp_path)
    write(spark, sink, 0, 10, 110)
    write(spark, sink, 1, 115, 120)
    assert counted(spark, sink) == {10: 1, 110: 2, 120: 1}


def test_the_table_is_not_committed_if_its_log_is_not(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    spark.range(1).write.format("delta").save(str(sink.log))
    with pytest.raises(TableError, match="log"):
        sink.write({"rows": windows(spark, [10])}, batch(0, watermark=WATERMARKS[1]))
    assert not is_there(Path(sink.path))


def test_the_files_of_the_table_are_written_before_the_log_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_in(tmp_path)
    path_of_table = Path(sink.path)
    append = table.append

    def append_log_after_files(
        frame: DataFrame, path: str, options: CommitOptions, *rest: Any
    ) -> None:
        if path == sink.log:
            wait_until(
                lambda: any(path_of_table.glob("*.parquet")),
                timeout=60,
                event="a file of the table",
            )
            assert not is_there(path_of_table)
        append(frame, path, options, *rest)

    monkeypatch.setattr(table, "append", append_log_after_files)
    write(spark, sink, 0, 10)
    assert counted(spark, sink) == {10: 1}
