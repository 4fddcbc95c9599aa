"""Heartbeats: instants in a folder, by which a quiet input's watermark goes on without an event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..eventtime.watermark import BEAT, watermarked


@dataclass(frozen=True)
class Heartbeats:
    """A folder of one query's own, to which instants are written when an input is quiet too long.

    Heartbeats are a source of the query as any other: a batch that runs again after a crash meets
    the same ones. A file that was read is deleted.
    """

    path: str

    def beat(self, spark: SparkSession, at: datetime) -> None:
        """Write an instant: less the lateness, the watermark of the batch after the next."""
        beats = spark.createDataFrame([(at,)], "at timestamp")
        beats.coalesce(1).write.mode("append").parquet(self.path)

    def below(self, events: DataFrame, time: str, lateness: str) -> DataFrame:
        """Set the watermark over the events and the heartbeats, and return the events alone."""
        written = (
            events.sparkSession.readStream.schema("at timestamp")
            .option("cleanSource", "delete")
            .parquet(self.path)
        )
        beats = written.select(F.col("at").alias(time), F.lit(True).alias(BEAT))
        marked = events.withColumn(BEAT, F.lit(False))
        return watermarked(marked.unionByName(beats, allowMissingColumns=True), time, lateness)
