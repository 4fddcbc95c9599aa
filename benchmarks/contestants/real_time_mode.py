"""Enrichment by the real-time mode of Spark, from topic to topic.

Command line: QUERY SERVERS TOPIC OUTPUT FOLDER. It runs until the process is killed.

A task for each partition runs for the duration of its batch, so the session needs more slots than
partitions. The query uses only Spark, because the mode does not support foreachBatch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from benchmarks.contestants.latency_jobs import plans
from benchmarks.support.click_topic import SCHEMA
from benchmarks.support.contestant_process import RunContext
from benchmarks.support.harness import PARTITIONS
from tidegate import spark_session

BATCH = "1 minute"
"""The interval between checkpoints, and so the most that is read again after a crash."""


def main(query: str, servers: str, topic: str, output: str, folder: str) -> None:
    """Join each click with a table, until the process is killed."""
    assert query == "enrichment"
    spark = spark_session("real time", master=f"local[{PARTITIONS + 2}]")
    kafka = {"kafka.bootstrap.servers": servers}
    raw = spark.readStream.format("kafka").options(**kafka).option("subscribe", topic)
    click = F.from_json(F.col("value").cast("string"), SCHEMA).alias("click")
    clicks = raw.option("startingOffsets", "earliest").load().select(click).select("click.*")
    table = spark.read.format("delta").load(str(plans(RunContext(servers, topic, Path(folder)))))
    known = clicks.join(F.broadcast(table), "user", "left").withColumnRenamed("ts", "known")
    writer = known.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.options(**kafka).option("topic", output)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").outputMode("update")
    # The type stubs of PySpark lack this argument.
    timed: Any = writer.trigger
    timed(realTime=BATCH).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
