"""Heartbeats advance the watermark of an idle input, whatever the transform filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.sources import Heartbeats
from tidegate.windows import tumbling

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


@pytest.mark.slow
def test_the_last_window_is_emitted_after_a_filter_that_drops_heartbeats(
    spark: SparkSession, tmp_path: Path
) -> None:
    heartbeats = Heartbeats(str(tmp_path / "heartbeats"))
    heartbeats.write(spark, UNIX_EPOCH)
    rows = [(START, "/"), (START + timedelta(seconds=90), "/other")]
    schema = "event_time timestamp, page string"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "events"))
    events = spark.readStream.schema(schema).parquet(str(tmp_path / "events"))
    home = heartbeats.with_watermark(events, "event_time", "1 minute").where("page = '/'")
    counted = tumbling(home, "1 minute", aggs={"n": count()})
    counts: list[int] = []

    def collect(batch: DataFrame, number: int) -> None:
        counts.extend(row.n for row in batch.collect())

    query = (
        counted.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert counts == []
        heartbeats.write(spark, START + timedelta(minutes=2))
        query.processAllAvailable()
        assert counts == [1]
    finally:
        query.stop()
