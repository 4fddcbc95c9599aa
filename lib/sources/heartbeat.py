"""Heartbeats, which advance the watermark of an idle input."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..event_time.watermark import IS_HEARTBEAT, with_watermark


@dataclass(frozen=True)
class Heartbeats:
    """A folder of timestamps that a query reads to advance the watermark of an idle input.

    The folder is an ordinary source of the query: after a crash a batch reads the same heartbeats
    again. Spark deletes the files that it has read.

    >>> Heartbeats("/data/clicks.checkpoint/heartbeats").path
    '/data/clicks.checkpoint/heartbeats'
    """

    path: str

    def write(self, spark: SparkSession, time: datetime) -> None:
        """Write an instant; minus the delay it is the watermark of the batch after the next."""
        heartbeat = spark.createDataFrame([(time,)], "at timestamp")
        heartbeat.coalesce(1).write.mode("append").parquet(self.path)

    def with_watermark(self, events: DataFrame, time: str, watermark_delay: str) -> DataFrame:
        """Return the events with a watermark that events and heartbeats advance."""
        reader = events.sparkSession.readStream.schema("at timestamp")
        instants = reader.option("cleanSource", "delete").parquet(self.path)
        heartbeats = instants.select(F.col("at").alias(time), F.lit(True).alias(IS_HEARTBEAT))
        flagged_events = events.withColumn(IS_HEARTBEAT, F.lit(False))
        rows = flagged_events.unionByName(heartbeats, allowMissingColumns=True)
        return with_watermark(rows, time, watermark_delay)
