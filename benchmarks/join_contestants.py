"""The joins that are measured, each from Kafka to Delta; one of them in a process of its own."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin, JoinEmission
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading

from .contest import Contestant, Place, compete
from .contestants import CONTESTANTS, LATENESS, ROWS_A_BATCH
from .impressions import CLICK, IMPRESSION, WITHIN_MS

WITHIN = ("0 seconds", f"{WITHIN_MS} milliseconds")
PARTS = (("impressions", IMPRESSION), ("clicks", CLICK))


def by_hand(spark: SparkSession, place: Place) -> None:
    """Join by Spark's own stream-stream join and Delta's own sink; a batch is as large as the
    library's."""

    def read(part: str, schema: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": place.servers,
            "subscribe": f"{place.topic}-{part}",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS_A_BATCH // 2),
        }
        raw = spark.readStream.format("kafka").options(**options).load()
        rows = raw.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select(
            "row.*"
        )
        return rows.withColumn("event_time", F.timestamp_millis("ts")).withWatermark(
            "event_time", LATENESS
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
        "checkpointLocation", str(place.folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start(str(place.folder / "table")).awaitTermination()


def by_tidegate(
    spark: SparkSession, place: Place, *, emission: JoinEmission, backlog: int | None = None
) -> None:
    """Join by the library, in a job of its own."""
    inputs = {
        part: Input(
            Reading(
                source=KafkaSource(
                    servers=place.servers,
                    topics=[f"{place.topic}-{part}"],
                    max_rows=ROWS_A_BATCH // 2,
                ),
                format=json_format(schema),
                time=instant(F.col("ts"), "milliseconds"),
                lateness=LATENESS,
                future_tolerance=None,
            )
        )
        for part, schema in PARTS
    }
    job = Job(
        name="bench",
        inputs=inputs,
        transform=IntervalJoin("id", within=WITHIN, how="inner", emission=emission),
        sink=Append(path=str(place.folder / "table")),
        checkpoint=str(place.folder / "checkpoint"),
        dead=str(place.folder / "dead"),
        backlog=backlog,
    )
    run(job, spark, show=Show())


JOINS: dict[str, Contestant] = {
    "tumbling": CONTESTANTS["tumbling"],
    "join by hand": by_hand,
    "stream_stream, early": partial(by_tidegate, emission="early"),
    "stream_stream, final": partial(by_tidegate, emission="final"),
}
"""By name. The ratio of each is taken to "tumbling" of the same round, over as many messages."""


if __name__ == "__main__":
    compete(JOINS)
