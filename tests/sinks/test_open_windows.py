"""Windows that are shown while they are open: what a batch costs beside its rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, partials
from tidegate.jvm.session import java_object
from tidegate.sinks import Corrected
from tidegate.testing.scans import Scans
from tidegate.windows import Tumbling, Windowed, tumbling

from .batches import batch

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"n": count()}
METRICS = "org.apache.spark.metrics.source.CodegenMetrics"
WARM = 4


@pytest.fixture
def shown(spark: SparkSession, tmp_path: Path) -> Corrected:
    """A table of windows of a minute, to which each of some batches has brought an event."""
    sink = Corrected(
        str(tmp_path / "shown"), windowed=Windowed(Tumbling("1 minute"), aggs=AGGS), log=None
    )
    for number in range(WARM):
        write(spark, sink, number)
    return sink


def write(spark: SparkSession, sink: Corrected, number: int) -> None:
    now = AT + timedelta(seconds=number)
    events = spark.createDataFrame([(now,)], "event_time timestamp")
    before = max(now - timedelta(seconds=1), AT)
    own = batch(number, late_watermark=before, watermark=now)
    rows = tumbling(events, "1 minute", aggs=partials(AGGS))
    assert sink.write({"rows": rows}, own) == "written"


def views(spark: SparkSession, sink: Corrected) -> list[tuple[int, int]]:
    start = F.unix_seconds("window.start") - F.lit(int(AT.timestamp()))
    rows = spark.read.format("delta").load(sink.path).select(start, "n").orderBy(start).collect()
    return [(row[0], row[1]) for row in rows]


def test_a_batch_has_no_code_of_its_own(spark: SparkSession, shown: Corrected) -> None:
    compiled = java_object(spark, METRICS).METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    for number in range(WARM, WARM + 4):
        write(spark, shown, number)
    assert compiled.getCount() - before <= 1
    assert views(spark, shown) == [(0, WARM + 4)]


def test_what_a_batch_changes_is_looked_for_once(spark: SparkSession, shown: Corrected) -> None:
    with Scans(spark) as scans:
        write(spark, shown, WARM)
    # The look, and the two of the merge itself.
    assert len(scans.tables["shown"].scans) == 3
    assert views(spark, shown) == [(0, WARM + 1)]


def test_windows_that_a_batch_only_ends_become_final(spark: SparkSession, shown: Corrected) -> None:
    last = AT + timedelta(seconds=WARM - 1)
    nothing = spark.createDataFrame([], "event_time timestamp")
    rows = tumbling(nothing, "1 minute", aggs=partials(AGGS))
    own = batch(WARM, late_watermark=last, watermark=last + timedelta(minutes=2))
    assert shown.write({"rows": rows}, own) == "written"
    table = spark.read.format("delta").load(shown.path)
    assert [(row["n"], row["final"]) for row in table.collect()] == [(WARM, True)]
    again = batch(WARM + 1, late_watermark=own.watermark, watermark=own.watermark)
    assert shown.write({"rows": rows}, again) == "written"
