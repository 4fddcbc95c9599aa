"""The queries that are measured, each from Kafka to its end; one of them in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, mean, total
from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sketches import distinct
from tidegate.sources import KafkaSource, Reading
from tidegate.transform import Transform
from tidegate.windows import Hopping, Session, Sliding, Tumbling, Window, Windowed

from .contest import Contestant, Place, compete
from .topic import SCHEMA

ROWS_A_BATCH = 1_000_000
LATENESS = "10 seconds"
AGGS: Mapping[str, Aggregate] = {"views": count(), "total_ms": total("ms"), "mean_ms": mean("ms")}


def _kafka(spark: SparkSession, place: Place) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", place.servers)
        .option("subscribe", place.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
    )


def _parsed(raw: DataFrame) -> DataFrame:
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("click"))
    return parsed.select("click.*").withColumn("event_time", F.timestamp_millis("ts"))


def _clicks(spark: SparkSession, place: Place) -> DataFrame:
    return _parsed(_kafka(spark, place)).withWatermark("event_time", LATENESS)


def floor(spark: SparkSession, place: Place) -> None:
    """Read the topic, and do nothing with it."""
    rows = (
        _kafka(spark, place)
        .writeStream.format("noop")
        .option("checkpointLocation", str(place.folder / "checkpoint"))
    )
    rows.trigger(availableNow=True).start().awaitTermination()


def _sums() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("views"),
        F.sum("ms").alias("total_ms"),
        F.avg("ms").alias("mean_ms"),
    ]


def _approximate() -> list[Column]:
    # 0.016: the error of `distinct` at its default precision.
    return [F.approx_count_distinct("user", 0.016).alias("users")]


def _by_hand(
    window: Callable[[], Column], by: str, aggs: Callable[[], list[Column]] = _sums
) -> Contestant:
    def contest(spark: SparkSession, place: Place) -> None:
        result = _clicks(spark, place).groupBy(window(), by).agg(*aggs())
        writer = result.writeStream.format("delta").option(
            "checkpointLocation", str(place.folder / "checkpoint")
        )
        writer.trigger(availableNow=True).start(str(place.folder / "table")).awaitTermination()

    return contest


def exact_batch(spark: SparkSession, place: Place) -> None:
    """Count different users exactly, which a stream cannot, over the whole topic as one batch."""
    raw = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", place.servers)
        .option("subscribe", place.topic)
    )
    clicks = _parsed(raw.load()).groupBy(F.window("event_time", "10 seconds"), "page")
    clicks.agg(F.count_distinct("user").alias("users")).write.format("delta").save(
        str(place.folder / "table")
    )


def of_tidegate(
    window: Window,
    by: str,
    aggs: Mapping[str, Aggregate] = AGGS,
    *,
    backlog: int | None = None,
    **settings: Any,
) -> Contestant:
    """Return the library's job of a window: as a stream, or with what waits as a batch first."""
    return of_transform(Windowed(window, by=by, aggs=aggs), backlog=backlog, **settings)


def of_transform(
    transform: Transform, *, backlog: int | None = None, **settings: Any
) -> Contestant:
    """Return the library's job of a transform: as a stream, or with what waits as a batch first.

    settings: those of its input.
    """

    def contest(spark: SparkSession, place: Place) -> None:
        source = KafkaSource(servers=place.servers, topics=[place.topic], max_rows=ROWS_A_BATCH)
        reading = Reading(
            source=source,
            format=json_format(SCHEMA),
            time=instant(F.col("ts"), "milliseconds"),
            lateness=LATENESS,
            future_tolerance=None,
        )
        job = Job(
            name="bench",
            inputs={"clicks": Input(reading, **settings)},
            transform=transform,
            sink=Append(path=str(place.folder / "table")),
            checkpoint=str(place.folder / "checkpoint"),
            dead=str(place.folder / "dead"),
            backlog=backlog,
        )
        run(job, spark, show=Show())

    return contest


CONTESTANTS: dict[str, Contestant] = {
    "floor": floor,
    "tumbling by hand": _by_hand(lambda: F.window("event_time", "10 seconds"), "page"),
    "tumbling": of_tidegate(Tumbling("10 seconds"), "page"),
    "hopping by hand": _by_hand(lambda: F.window("event_time", "60 seconds", "10 seconds"), "page"),
    "hopping": of_tidegate(Hopping("60 seconds", "10 seconds"), "page"),
    "sliding": of_tidegate(Sliding("60 seconds"), "user"),
    "session by hand": _by_hand(lambda: F.session_window("event_time", "30 seconds"), "user"),
    "session": of_tidegate(Session("30 seconds"), "user"),
    "distinct exactly, batch": exact_batch,
    "distinct by hand": _by_hand(
        lambda: F.window("event_time", "10 seconds"), "page", _approximate
    ),
    "distinct": of_tidegate(Tumbling("10 seconds"), "page", {"users": distinct("user")}),
}
"""By name. The ratio of each is taken to "tumbling by hand" of the same round."""


if __name__ == "__main__":
    compete(CONTESTANTS)
