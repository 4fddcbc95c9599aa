"""Transforms need nothing but the DataFrame API: they run under Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

SCRIPT = """
from datetime import UTC, datetime
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StructType, TimestampType
from tidegate.aggregates import avg, count, finish, last, partials
from tidegate.changelogs import history_rows, latest_changes
from tidegate.errors import ColumnTypeError, SetupError
from tidegate.formats import json_format
from tidegate.joins import stream_stream, stream_table, table_table
from tidegate.windows import deduplicate
from tidegate.sketches import (
    approx_count_distinct, approx_quantile, approx_top_k, bloom_filter, theta_sketch,
)
from tidegate import Input, Job, run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import StreamDriver
from tidegate.windows import cumulative, hopping, roll_up, session, sliding, tumbling

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(datetime(2026, 1, 1, 10, 3, second, tzinfo=UTC), second) for second in range(0, 50, 10)]
events = spark.createDataFrame(rows, "event_time timestamp, value int")
aggs = {"n": count(), "avg": avg("value"), "last": last("value")}
for frame in (
    tumbling(events, "20 seconds", aggs=aggs),
    hopping(events, "20 seconds", "1 second", aggs=aggs),
    sliding(events, "20 seconds", aggs=aggs),
    session(events, "10 seconds", aggs=aggs),
    cumulative(events, "1 hour", "1 day", aggs=aggs, zone="Europe/Berlin"),
):
    print(type(frame).__module__, sum(row.n for row in frame.collect()))
sketches = {
    "n": approx_count_distinct("value"), "ms": approx_quantile("value", 0.5),
    "top": approx_top_k("value", 1),
    "set": theta_sketch("value"), "bloom": bloom_filter("value", expected_items=100),
}
minutes = tumbling(events, "20 seconds", aggs=partials(sketches))
hour = finish(roll_up(minutes, "1 hour", aggs=sketches), sketches).head()
print(hour.n, hour.ms, len(hour.top), hour.set)
print(stream_stream(events, events, "value", within=("0 seconds", "1 second"), how="full").count())
others = events.select("event_time", F.col("value").alias("other"))
both = table_table(events, others, on="event_time", how="full")
print(both.count())
titles = events.select("value", F.lit("x").alias("title"))
print(stream_table(events, titles, "value").count())
valid_from = F.col("event_time").alias("valid_from")
history = events.select(F.lit(1).alias("one"), valid_from, F.col("value").alias("since"))
print(stream_table(events.withColumn("one", F.lit(1)), history, "one", as_of="event_time").count())
shape = (
    "op string, key struct<id:int>, before struct<id:int,v:string>, after struct<id:int,v:string>, "
    "unavailable array<string>, position struct<topic:string,partition:int,offset:bigint,"
    "written_at:timestamp,server:string,source:array<bigint>,committed_at:timestamp>, "
    "event_time timestamp"
)
at = rows[0][0]
log = [
    ("create", (1,), None, (1, "a"), None, ("t", 0, 0, at, "s", [1], at), rows[0][0]),
    ("update", (1,), None, (1, "b"), None, ("t", 0, 1, at, "s", [2], at), rows[1][0]),
]
changed = spark.createDataFrame(log, shape)
print(history_rows(changed).count(), latest_changes(changed).count())
print(deduplicate(events, "value", "10 seconds", max_delay="1 second").count())
try:
    StreamDriver(spark, "event_time timestamp", lambda events: events, watermark_delay=None)
except ColumnTypeError as error:
    print(error.detail)
clicks = json_format(StructType().add("event_time", TimestampType()))
source = KafkaSource("nowhere:9092", "clicks")
clicks_input = Input(source, clicks, time="event_time", watermark_delay="1 second")
try:
    run(Job(name="views", inputs={"clicks": clicks_input}, sink=Append("views")), spark)
except SetupError as error:
    print(error.detail)
"""


def test_all_transforms_run_under_spark_connect(tmp_path: Path) -> None:
    root = str(Path(tidegate.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable}
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    module = "pyspark.sql.connect.dataframe"
    # 5 events; each in 20 windows of a second's hop; sliding sees 1, 2, 3, 3, 3; 13 days so far,
    # from noon on.
    lines = done.stdout.split("\n")
    assert lines[:5] == [f"{module} {n}" for n in (5, 100, 12, 5, 5 * 13)]
    assert lines[5:12] == ["5 20.0 1 5", "5", "5", "5", "5", "2 1", "5"]
    assert lines[12].startswith("a classic SparkSession")
    assert lines[13].startswith("Spark Connect has no access")
