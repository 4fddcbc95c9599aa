"""Window queries from Kafka to Delta, in the library and in plain PySpark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support.click_topic import SCHEMA
from benchmarks.support.contestant_process import Contestant, RunContext, run_contestant
from tidegate import Input, Job, run
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sketches import approx_count_distinct
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay
from tidegate.transform import Transform
from tidegate.windows import Hopping, Session, Sliding, Tumbling, Window, WindowAggregation

ROWS_A_BATCH = 1_000_000
WATERMARK_DELAY = "10 seconds"
AGGS: Mapping[str, Aggregate] = {
    "views": agg.count(),
    "total_ms": agg.sum("ms"),
    "mean_ms": agg.avg("ms"),
}


def read_kafka(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return the records of a topic as a stream, in batches of ROWS_A_BATCH."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
    )


def _parsed(raw: DataFrame) -> DataFrame:
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("click"))
    return parsed.select("click.*").withColumn("event_time", F.timestamp_millis("ts"))


def _clicks(spark: SparkSession, context: RunContext) -> DataFrame:
    raw = read_kafka(spark, context.servers, context.topic)
    return _parsed(raw).withWatermark("event_time", WATERMARK_DELAY)


def floor(spark: SparkSession, context: RunContext) -> None:
    """Read the topic, and discard the rows."""
    rows = (
        read_kafka(spark, context.servers, context.topic)
        .writeStream.format("noop")
        .option("checkpointLocation", str(context.folder / "checkpoint"))
    )
    rows.trigger(availableNow=True).start().awaitTermination()


def _sums() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("views"),
        F.sum("ms").alias("total_ms"),
        F.avg("ms").alias("mean_ms"),
    ]


def _approximate() -> list[Column]:
    # 0.016 is the error of approx_count_distinct of the library at its default precision.
    return [F.approx_count_distinct("user", 0.016).alias("users")]


def _plain_pyspark(
    window: Callable[[], Column], by: str, aggs: Callable[[], list[Column]] = _sums
) -> Contestant:
    def run_query(spark: SparkSession, context: RunContext) -> None:
        result = _clicks(spark, context).groupBy(window(), by).agg(*aggs())
        writer = result.writeStream.format("delta").option(
            "checkpointLocation", str(context.folder / "checkpoint")
        )
        writer.trigger(availableNow=True).start(str(context.folder / "table")).awaitTermination()

    return run_query


def exact_batch(spark: SparkSession, context: RunContext) -> None:
    """Count distinct users exactly, over the topic as one batch; a stream cannot."""
    raw = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", context.servers)
        .option("subscribe", context.topic)
    )
    clicks = _parsed(raw.load()).groupBy(F.window("event_time", "10 seconds"), "page")
    clicks.agg(F.count_distinct("user").alias("users")).write.format("delta").save(
        str(context.folder / "table")
    )


def tidegate_windows(
    window: Window,
    by: str,
    aggs: Mapping[str, Aggregate] = AGGS,
    **settings: Any,
) -> Contestant:
    """Return the library's job of a window; settings as in `tidegate_job`."""
    return tidegate_job(WindowAggregation(window, by=by, aggs=aggs), **settings)


def tidegate_job(
    transform: Transform, *, backfill_threshold: int | None = None, **settings: Any
) -> Contestant:
    """Return the library's job of a transform: as a stream, or with a backfill.

    settings: further arguments of the input.
    """

    def run_query(spark: SparkSession, context: RunContext) -> None:
        source = KafkaSource(
            bootstrap_servers=context.servers,
            topics=[context.topic],
            max_records_per_batch=ROWS_A_BATCH,
        )
        clicks = Input(
            source=source,
            format=json_format(SCHEMA),
            time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
            watermark_delay=WATERMARK_DELAY,
            future_tolerance=None,
        )
        job = Job(
            name="bench",
            inputs={"clicks": replace(clicks, **settings)},
            transform=transform,
            sink=Append(path=str(context.folder / "table")),
            checkpoint=str(context.folder / "checkpoint"),
            dead_letters=str(context.folder / "dead"),
            backfill_threshold=backfill_threshold,
        )
        run(job, spark, display=ProgressDisplay())

    return run_query


CONTESTANTS: dict[str, Contestant] = {
    "floor": floor,
    "tumbling (PySpark)": _plain_pyspark(lambda: F.window("event_time", "10 seconds"), "page"),
    "tumbling": tidegate_windows(Tumbling("10 seconds"), "page"),
    "hopping (PySpark)": _plain_pyspark(
        lambda: F.window("event_time", "60 seconds", "10 seconds"), "page"
    ),
    "hopping": tidegate_windows(Hopping("60 seconds", "10 seconds"), "page"),
    "sliding": tidegate_windows(Sliding("60 seconds"), "user"),
    "session (PySpark)": _plain_pyspark(
        lambda: F.session_window("event_time", "30 seconds"), "user"
    ),
    "session": tidegate_windows(Session("30 seconds"), "user"),
    "distinct exactly, batch": exact_batch,
    "distinct (PySpark)": _plain_pyspark(
        lambda: F.window("event_time", "10 seconds"), "page", _approximate
    ),
    "distinct": tidegate_windows(
        Tumbling("10 seconds"), "page", {"users": approx_count_distinct("user")}
    ),
}


if __name__ == "__main__":
    run_contestant(CONTESTANTS)
