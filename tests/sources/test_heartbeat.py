"""Heartbeats move a quiet input's watermark on, whatever the transform does first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.commit import EPOCH
from tidegate.sources import Heartbeats
from tidegate.windows import tumbling

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


@pytest.mark.slow
def test_the_last_window_comes_out_after_a_filter_that_no_heartbeat_would_pass(
    spark: SparkSession, tmp_path: Path
) -> None:
    heartbeats = Heartbeats(str(tmp_path / "heartbeats"))
    heartbeats.beat(spark, EPOCH)
    rows = [(START, "/"), (START + timedelta(seconds=90), "/other")]
    schema = "event_time timestamp, page string"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "events"))
    events = spark.readStream.schema(schema).parquet(str(tmp_path / "events"))
    home = heartbeats.below(events, "event_time", "1 minute").where("page = '/'")
    counted = tumbling(home, "1 minute", aggs={"n": count()})
    found: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        found.extend(row.n for row in batch.collect())

    query = (
        counted.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert found == []
        heartbeats.beat(spark, START + timedelta(minutes=2))
        query.processAllAvailable()
        assert found == [1]
    finally:
        query.stop()
