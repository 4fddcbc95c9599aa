"""Enrichment by Spark's real-time mode, from topic to topic: QUERY SERVERS TOPIC OUTPUT FOLDER.

It runs on until the process is killed. Spark's own reader, join and sink: a task for each partition
runs for as long as its batch does, so there are as many slots as partitions and more. Nothing of
the library stands in it, for the mode takes no function of a batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tidegate.runtime import spark_session

from .contest import Place
from .harness import PARTITIONS
from .latency_contestants import plans
from .topic import SCHEMA

BATCH = "1 minute"
"""How often it notes its offsets: how much is read again after a crash."""


def main(query: str, servers: str, topic: str, output: str, folder: str) -> None:
    """Join each click with a table, until the process is killed."""
    assert query == "enrichment"
    spark = spark_session("real time", master=f"local[{PARTITIONS + 2}]")
    kafka = {"kafka.bootstrap.servers": servers}
    raw = spark.readStream.format("kafka").options(**kafka).option("subscribe", topic)
    click = F.from_json(F.col("value").cast("string"), SCHEMA).alias("click")
    clicks = raw.option("startingOffsets", "earliest").load().select(click).select("click.*")
    table = spark.read.format("delta").load(str(plans(Place(servers, topic, Path(folder)))))
    known = clicks.join(F.broadcast(table), "user", "left").withColumnRenamed("ts", "known")
    writer = known.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.options(**kafka).option("topic", output)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").outputMode("update")
    # Spark's declaration leaves out this argument.
    timed: Any = writer.trigger
    timed(realTime=BATCH).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
