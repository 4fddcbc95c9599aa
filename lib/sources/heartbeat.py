"""Heartbeats: instants in a folder, by which the watermark of a quiet input goes on without an
event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted

_BEAT = "__tidegate_beat"


@dataclass(frozen=True)
class Heartbeats:
    """A folder of one query's own, to which its driver writes an instant when an input has been quiet for too long.

    They are a source of the query as any other: a batch that runs again after a crash meets the
    same ones. A file that was read is deleted."""

    path: str

    def beat(self, spark: SparkSession, at: datetime) -> None:
        """Write one instant; the watermark goes on to it, less the lateness, with the batch after
        the next."""
        spark.createDataFrame([(at,)], "at timestamp").coalesce(1).write.mode("append").parquet(
            self.path
        )

    def below(self, events: DataFrame, time: str, lateness: str) -> DataFrame:
        """Set the watermark over the events and the heartbeats, and give the events alone."""
        beats = (
            events.sparkSession.readStream.schema("at timestamp")
            .option("cleanSource", "delete")
            .parquet(self.path)
            .select(F.col("at").alias(time), F.lit(True).alias(_BEAT))
        )
        both = events.withColumn(_BEAT, F.lit(False)).unionByName(beats, allowMissingColumns=True)
        # Naming the time keeps the filter above the watermark, where a heartbeat has been seen
        # already.
        marked = both.withWatermark(time, lateness).where(~quoted(_BEAT) | quoted(time).isNull())
        return marked.drop(_BEAT)
