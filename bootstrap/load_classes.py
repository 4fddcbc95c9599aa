"""What is run for its classes to be archived: windows of a stream, Delta's writing and merging."""

from __future__ import annotations

import tempfile

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from tidegate.runtime.process.session import spark_session


def main() -> None:
    """Write a Delta table by a stream of windows, merge into the table, and read it."""
    spark = spark_session("classes")
    with tempfile.TemporaryDirectory(prefix="tidegate-classes-") as folder:
        table = f"{folder}/table"
        rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        windows = rates.withWatermark("timestamp", "1 second").groupBy(
            F.window("timestamp", "1 second"), (F.col("value") % 3).alias("key")
        )
        writer = windows.agg(F.count("*").alias("n")).writeStream.format("delta")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start(table).awaitTermination()
        found = spark.read.format("delta").load(table)
        merge = DeltaTable.forPath(spark, table).alias("old").merge(found.alias("new"), "false")
        merge.whenNotMatchedInsertAll().execute()
        found.groupBy("key").count().collect()
    spark.stop()


if __name__ == "__main__":
    main()
