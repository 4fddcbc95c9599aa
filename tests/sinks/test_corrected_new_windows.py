"""Windows that follow all that are stored: appended without a look at them, beside their log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, partials
from tidegate.commit import table
from tidegate.commit.batch import EPOCH
from tidegate.commit.options import CommitOptions
from tidegate.errors import TableError
from tidegate.sinks import Corrected
from tidegate.testing.process import until
from tidegate.testing.scans import Scans
from tidegate.windows import Tumbling, Windowed, tumbling

from ..tables import is_there
from .batches import batch

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
WATERMARKS = [EPOCH, *(AT + timedelta(seconds=at) for at in (100, 200, 300))]


def sink_in(folder: Path) -> Corrected:
    views = Windowed(Tumbling("10 seconds"), aggs=AGGS)
    return Corrected(str(folder / "views"), windowed=views, log=str(folder / "log"))


def windows(spark: SparkSession, seconds: Sequence[int]) -> DataFrame:
    """Return the windows of events at these seconds, as partials."""
    times = [(AT + timedelta(seconds=at),) for at in seconds]
    events = spark.createDataFrame(times, "event_time timestamp")
    return tumbling(events, "10 seconds", aggs=partials(AGGS))


def written(spark: SparkSession, sink: Corrected, number: int, *seconds: int) -> Scans:
    """Write a batch whose watermark is one of WATERMARKS; return what it read."""
    own = batch(number, late_watermark=WATERMARKS[number], watermark=WATERMARKS[number + 1])
    with Scans(spark) as scans:
        assert sink.write({"rows": windows(spark, seconds)}, own) == "written"
    return scans


def counted(spark: SparkSession, sink: Corrected) -> dict[int, int]:
    """Return by each window's start, in seconds, how many events it has; each window once."""
    start = F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))
    rows = spark.read.format("delta").load(sink.path).select(start, "n").collect()
    found = {row[0]: row[1] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("first", [[10, 20], []], ids=["windows", "nothing"])
def test_what_follows_all_windows_is_appended_without_a_look_at_them_from_the_first_batch_on(
    first: list[int], spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_in(tmp_path)
    written(spark, sink, 0, *first)
    later = [written(spark, sink, 1, 110, 115), written(spark, sink, 2, 250)]
    assert [scans.tables.get("views") for scans in later] == [None, None]
    assert counted(spark, sink) == dict.fromkeys(first, 1) | {110: 2, 250: 1}


def test_a_window_that_the_first_batch_left_open_is_found_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_in(tmp_path)
    written(spark, sink, 0, 10, 110)
    written(spark, sink, 1, 115, 120)
    assert counted(spark, sink) == {10: 1, 110: 2, 120: 1}


def test_the_table_is_not_committed_where_its_log_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sink_in(tmp_path)
    spark.range(1).write.format("delta").save(str(sink.log))
    with pytest.raises(TableError, match="log"):
        sink.write({"rows": windows(spark, [10])}, batch(0, watermark=WATERMARKS[1]))
    assert not is_there(Path(sink.path))


def test_the_tables_files_are_written_while_its_log_is_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_in(tmp_path)
    place = Path(sink.path)
    append = table.append

    def in_turns(frame: DataFrame, path: str, options: CommitOptions, *rest: Any) -> None:
        if path == sink.log:
            until(lambda: any(place.glob("*.parquet")), within=60, what="a file of the table")
            assert not is_there(place)
        append(frame, path, options, *rest)

    monkeypatch.setattr(table, "append", in_turns)
    written(spark, sink, 0, 10)
    assert counted(spark, sink) == {10: 1}
