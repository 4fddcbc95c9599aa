"""Continuous jobs for the latency benchmark, in the library and in plain PySpark."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support.click_topic import SCHEMA
from benchmarks.support.commit_times import Live
from benchmarks.support.contestant_process import RunContext
from benchmarks.support.impression_topic import CLICK, IMPRESSION
from tidegate import Input, Job, run
from tidegate import aggregates as agg
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.job.job import EmitMode
from tidegate.joins import IntervalJoin, JoinEmit, LookupJoin
from tidegate.process.shutdown import Stop
from tidegate.sinks import Append, CorrectedWindows, Sink, SnapshotJoin
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay
from tidegate.transform import Transform
from tidegate.windows import Tumbling, WindowAggregation

WATERMARK_DELAY_MS, SIZE = 2_000, "10 seconds"
WATERMARK_DELAY = f"{WATERMARK_DELAY_MS} milliseconds"
WITHIN = ("0 seconds", "5 seconds")
PAIR = {"impressions": IMPRESSION, "clicks": CLICK}
WINDOWS = WindowAggregation(
    Tumbling(SIZE), by="page", aggs={"views": agg.count(), "newest": agg.max("ts")}
)


def _job(
    spark: SparkSession,
    context: RunContext,
    seconds: float,
    topics: Mapping[str, tuple[str, str]],
    sink: Sink,
    transform: Transform | None = None,
    emit: EmitMode = "final",
) -> None:
    job = Job(
        name="latency",
        inputs={name: _input(context, *topic) for name, topic in topics.items()},
        transform=transform,
        emit=emit,
        sink=sink,
        checkpoint=str(context.folder / "checkpoint"),
        every="0 seconds",
    )
    stop = Stop()
    timer = threading.Timer(seconds, stop.request)
    timer.start()
    try:
        run(job, spark, stop=stop, display=ProgressDisplay())
    finally:
        timer.cancel()


def _input(context: RunContext, topic: str, schema: str) -> Input:
    return Input(
        source=KafkaSource(bootstrap_servers=context.servers, topics=[topic]),
        format=json_format(schema),
        time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
        watermark_delay=WATERMARK_DELAY,
    )


def enriched(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Join each click with a table."""
    join = LookupJoin("user", how="left")
    sink = SnapshotJoin(table=str(plans(context)), join=join, sink=Append(_table(context)))
    _job(spark, context, seconds, {"clicks": (context.topic, SCHEMA)}, sink)


def updates(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Update windows while they grow."""
    sink = CorrectedWindows(_table(context), aggregation=WINDOWS, log=None)
    clicks = {"clicks": (context.topic, SCHEMA)}
    _job(spark, context, seconds, clicks, sink, WINDOWS, emit="changes")


def final(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Write final windows."""
    clicks = {"clicks": (context.topic, SCHEMA)}
    _job(spark, context, seconds, clicks, Append(_table(context)), WINDOWS)


def joined(spark: SparkSession, context: RunContext, seconds: float, *, emit: JoinEmit) -> None:
    """Join impressions with their clicks."""
    topics = {name: (f"{context.topic}-{name}", schema) for name, schema in PAIR.items()}
    transform = IntervalJoin("id", within=WITHIN, how="inner", emit=emit)
    _job(spark, context, seconds, topics, Append(_table(context)), transform)


def _stream(spark: SparkSession, context: RunContext, topic: str, schema: str) -> DataFrame:
    """Read a topic in plain PySpark."""
    raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", context.servers)
    raw = raw.option("subscribe", topic).option("startingOffsets", "earliest")
    rows = raw.load().select(F.from_json(F.col("value").cast("string"), schema).alias("row"))
    rows = rows.select("row.*").withColumn("event_time", F.timestamp_millis("ts"))
    return rows.withWatermark("event_time", WATERMARK_DELAY)


def _plain_pyspark(rows: DataFrame, context: RunContext, seconds: float) -> None:
    """Append rows by the sink of Delta."""
    writer = rows.writeStream.format("delta").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(context.folder / "checkpoint")).start(
        _table(context)
    )
    time.sleep(seconds)
    query.stop()


def _plain_windows(spark: SparkSession, context: RunContext) -> DataFrame:
    clicks = _stream(spark, context, context.topic, SCHEMA)
    views, newest = F.count(F.lit(1)).alias("views"), F.max("ts").alias("newest")
    return clicks.groupBy(F.window("event_time", SIZE), "page").agg(views, newest)


def plain_enrichment(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Join each click with a table, by the stream-static join of Spark."""
    table = spark.read.format("delta").load(str(plans(context)))
    clicks = _stream(spark, context, context.topic, SCHEMA)
    _plain_pyspark(clicks.join(table, "user", "left"), context, seconds)


def plain_updates(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Merge windows into a table while they grow."""
    windows = _plain_windows(spark, context)
    spark.createDataFrame([], windows.schema).write.format("delta").save(_table(context))
    table = DeltaTable.forPath(spark, _table(context)).alias("old")

    def merge(rows: DataFrame, _: int) -> None:
        same = "old.window = new.window AND old.page = new.page"
        merged = table.merge(rows.alias("new"), same)
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    writer = windows.writeStream.outputMode("update").trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(context.folder / "checkpoint"))
    query = writer.foreachBatch(merge).start()
    time.sleep(seconds)
    query.stop()


def plain_final_windows(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Append windows after the watermark passes them."""
    _plain_pyspark(_plain_windows(spark, context), context, seconds)


def plain_join(spark: SparkSession, context: RunContext, seconds: float) -> None:
    """Join impressions with their clicks by the stream-stream join of Spark."""
    (left, right) = (
        _stream(spark, context, f"{context.topic}-{name}", schema).alias(name)
        for name, schema in PAIR.items()
    )
    same = F.col("impressions.id") == F.col("clicks.id")
    seen, clicked = F.col("impressions.event_time"), F.col("clicks.event_time")
    within = clicked.between(seen, seen + F.expr(f"INTERVAL {WITHIN[1]}"))
    times = [
        F.col(f"{name}.ts").alias(f"ts_{side}") for name, side in zip(PAIR, SIDES, strict=True)
    ]
    _plain_pyspark(
        left.join(right, same & within).select("impressions.id", *times), context, seconds
    )


def plans(context: RunContext) -> Path:
    """Return the path of the table that clicks are joined with."""
    return context.tables / "plans"


def _table(context: RunContext) -> str:
    return str(context.folder / "table")


SIDES = ("left", "right")
_TIMES = ("ts_left", "ts_right")
_CLICKS = partial(Live, columns=("ts",), known=lambda rows: rows["ts"])
_UPDATED = partial(
    Live,
    columns=("window", "page", "newest"),
    known=lambda rows: rows["newest"],
    rewritten=True,
)
_JOINED = partial(Live, columns=_TIMES, known=lambda rows: rows[list(_TIMES)].max(axis=1))


def _closed(rows: pd.DataFrame) -> pd.Series[int]:
    """Return when the watermark passes the end of each window."""
    # Within a struct, a timestamp can be a number of nanoseconds.
    ends = [round(pd.Timestamp(each["end"]).timestamp() * 1_000) for each in rows["window"]]
    return pd.Series(ends, dtype="int64") + WATERMARK_DELAY_MS


_FINAL = partial(Live, columns=("window",), known=_closed)
CONTESTANTS: dict[str, Live] = {
    "enrichment (PySpark)": _CLICKS(plain_enrichment),
    "enrichment": _CLICKS(enriched),
    "updates (PySpark)": _UPDATED(plain_updates),
    "updates": _UPDATED(updates),
    "final windows (PySpark)": _FINAL(plain_final_windows),
    "final windows": _FINAL(final),
    "join (PySpark)": _JOINED(plain_join),
    "join, early": _JOINED(partial(joined, emit="early")),
    "join, final": _JOINED(partial(joined, emit="final")),
}
