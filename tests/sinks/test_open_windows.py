"""Open windows: compilations and scans of a batch that updates them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.scan_metrics import ScanRecorder
from tests.support.sink_batches import batch
from tidegate.aggregates import count, partials
from tidegate.jvm.spark_internals import java_object
from tidegate.sinks import CorrectedWindows
from tidegate.windows import Tumbling, WindowAggregation, tumbling

pytestmark = pytest.mark.jobs

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
METRICS = "org.apache.spark.metrics.source.CodegenMetrics"
WARM_UP_BATCHES = 4


@pytest.fixture
def open_windows(spark: SparkSession, tmp_path: Path) -> CorrectedWindows:
    """Return a table of one-minute windows after several batches of one event."""
    sink = CorrectedWindows(
        str(tmp_path / "shown"),
        aggregation=WindowAggregation(Tumbling("1 minute"), aggs=AGGS),
        log=None,
    )
    for number in range(WARM_UP_BATCHES):
        write(spark, sink, number)
    return sink


def write(spark: SparkSession, sink: CorrectedWindows, number: int) -> None:
    now = AT + timedelta(seconds=number)
    events = spark.createDataFrame([(now,)], "event_time timestamp")
    before = max(now - timedelta(seconds=1), AT)
    next_batch = batch(number, late_watermark=before, watermark=now)
    rows = tumbling(events, "1 minute", aggs=partials(AGGS))
    assert sink.write({"rows": rows}, next_batch) == "written"


def views(spark: SparkSession, sink: CorrectedWindows) -> list[tuple[int, int]]:
    start = F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))
    rows = spark.read.format("delta").load(sink.path).select(start, "n").orderBy(start).collect()
    return [(row[0], row[1]) for row in rows]


def test_a_batch_compiles_no_new_code(spark: SparkSession, open_windows: CorrectedWindows) -> None:
    compiled = java_object(spark, METRICS).METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    for number in range(WARM_UP_BATCHES, WARM_UP_BATCHES + 4):
        write(spark, open_windows, number)
    assert compiled.getCount() - before <= 1
    assert views(spark, open_windows) == [(0, WARM_UP_BATCHES + 4)]


def test_stored_windows_are_read_once_in_addition_to_the_merge(
    spark: SparkSession, open_windows: CorrectedWindows
) -> None:
    with ScanRecorder(spark) as scans:
        write(spark, open_windows, WARM_UP_BATCHES)
    # One scan for the changes, and two for the merge.
    assert len(scans.tables["shown"].scans) == 3
    assert views(spark, open_windows) == [(0, WARM_UP_BATCHES + 1)]


def test_windows_become_final_by_a_batch_without_rows_for_them(
    spark: SparkSession, open_windows: CorrectedWindows
) -> None:
    last = AT + timedelta(seconds=WARM_UP_BATCHES - 1)
    nothing = spark.createDataFrame([], "event_time timestamp")
    rows = tumbling(nothing, "1 minute", aggs=partials(AGGS))
    next_batch = batch(WARM_UP_BATCHES, late_watermark=last, watermark=last + timedelta(minutes=2))
    assert open_windows.write({"rows": rows}, next_batch) == "written"
    table = spark.read.format("delta").load(open_windows.path)
    assert [(row["n"], row["final"]) for row in table.collect()] == [(WARM_UP_BATCHES, True)]
    repeated = batch(
        WARM_UP_BATCHES + 1,
        late_watermark=next_batch.plan.watermark,
        watermark=next_batch.plan.watermark,
    )
    assert open_windows.write({"rows": rows}, repeated) == "written"
