"""Joins of two topics, from Kafka to Delta, in the library and in plain PySpark."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.window_queries import CONTESTANTS, ROWS_A_BATCH, WATERMARK_DELAY
from benchmarks.support.contestant_process import Contestant, RunContext, run_contestant
from benchmarks.support.impression_topic import CLICK, IMPRESSION, WITHIN_MS
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin, JoinEmit
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay

WITHIN = ("0 seconds", f"{WITHIN_MS} milliseconds")
PARTS = (("impressions", IMPRESSION), ("clicks", CLICK))


def plain_pyspark(spark: SparkSession, context: RunContext) -> None:
    """Join by the stream-stream join of Spark and the sink of Delta, with equal batch sizes."""

    def read(part: str, schema: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": context.servers,
            "subscribe": f"{context.topic}-{part}",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS_A_BATCH // 2),
        }
        raw = spark.readStream.format("kafka").options(**options).load()
        rows = raw.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select(
            "row.*"
        )
        return rows.withColumn("event_time", F.timestamp_millis("ts")).withWatermark(
            "event_time", WATERMARK_DELAY
        )

    (impressions, clicks) = (read(part, schema).alias(part) for part, schema in PARTS)
    pairs = impressions.join(
        clicks,
        (F.col("impressions.id") == F.col("clicks.id"))
        & (F.col("clicks.event_time") >= F.col("impressions.event_time"))
        & (
            F.col("clicks.event_time")
            <= F.col("impressions.event_time") + F.expr(f"INTERVAL {WITHIN[1]}")
        ),
    )
    rows = pairs.select(
        "impressions.*",
        *[
            F.col(f"clicks.{name}").alias(f"click_{name}")
            for name in ("event_time", "ts", "position", "ms")
        ],
    )
    writer = rows.writeStream.format("delta").option(
        "checkpointLocation", str(context.folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start(str(context.folder / "table")).awaitTermination()


def tidegate_join(
    spark: SparkSession,
    context: RunContext,
    *,
    emit: JoinEmit,
    backfill_threshold: int | None = None,
) -> None:
    """Join by a job of the library."""
    inputs = {
        part: Input(
            source=KafkaSource(
                bootstrap_servers=context.servers,
                topics=[f"{context.topic}-{part}"],
                max_records_per_batch=ROWS_A_BATCH // 2,
            ),
            format=json_format(schema),
            time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
            watermark_delay=WATERMARK_DELAY,
            future_tolerance=None,
        )
        for part, schema in PARTS
    }
    job = Job(
        name="bench",
        inputs=inputs,
        transform=IntervalJoin("id", within=WITHIN, how="inner", emit=emit),
        sink=Append(path=str(context.folder / "table")),
        checkpoint=str(context.folder / "checkpoint"),
        dead_letters=str(context.folder / "dead"),
        backfill_threshold=backfill_threshold,
    )
    run(job, spark, display=ProgressDisplay())


JOINS: dict[str, Contestant] = {
    "tumbling": CONTESTANTS["tumbling"],
    "join (PySpark)": plain_pyspark,
    "stream_stream, early": partial(tidegate_join, emit="early"),
    "stream_stream, final": partial(tidegate_join, emit="final"),
}


if __name__ == "__main__":
    run_contestant(JOINS)
