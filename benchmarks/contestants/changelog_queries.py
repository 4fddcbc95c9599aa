"""The current rows of a table from its changes, from Kafka to Delta (SCD type 1).

In the library, and in plain PySpark as Delta's documentation shows it: in each batch the last
change of each key, merged into the table. That has no support for changes that are sent again,
truncates, changed keys, missing values and unreadable records."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.contestants.window_queries import ROWS_A_BATCH, read_kafka
from benchmarks.support.contestant_process import Contestant, RunContext
from benchmarks.support.order_table import COLUMNS, KEY, changes_topic
from tidegate import Input, Job, run
from tidegate.formats import debezium_format
from tidegate.sinks import CurrentTable
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay

ENVELOPE = (
    f"before STRUCT<{COLUMNS}>, after STRUCT<{COLUMNS}>, op STRING, source STRUCT<lsn BIGINT>"
)


def tidegate_current(spark: SparkSession, context: RunContext) -> None:
    """Keep the current rows in a `CurrentTable`."""
    changes = Input(
        source=KafkaSource(
            context.servers, changes_topic(context.topic), max_records_per_batch=ROWS_A_BATCH
        ),
        format=debezium_format(COLUMNS, key=KEY),
        time="event_time",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"changes": changes},
        sink=CurrentTable(str(context.folder / "table")),
        checkpoint=str(context.folder / "checkpoint"),
        dead_letters=str(context.folder / "dead"),
    )
    run(job, spark, display=ProgressDisplay())


def plain_pyspark(spark: SparkSession, context: RunContext) -> None:
    """Merge the last change of each key of a batch, by `foreachBatch`."""
    path = str(context.folder / "table")
    empty = spark.createDataFrame([], COLUMNS)
    DeltaTable.create(spark).location(path).addColumns(empty.schema).execute()
    by_key = Window.partitionBy(KEY).orderBy(F.desc("lsn"))
    values: dict[str, str | Column] = {name: f"changes.{name}" for name in empty.columns}

    def merge(batch: DataFrame, _: int) -> None:
        latest = batch.withColumn("n", F.row_number().over(by_key)).where("n = 1")
        rows = DeltaTable.forPath(batch.sparkSession, path).alias("rows")
        (
            rows.merge(latest.alias("changes"), f"rows.{KEY} = changes.{KEY}")
            .whenMatchedDelete("changes.op = 'd'")
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert("changes.op <> 'd'", values)
            .execute()
        )

    raw = read_kafka(spark, context.servers, changes_topic(context.topic))
    writer = (
        parse_changes(raw)
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(context.folder / "checkpoint"))
    )
    writer.trigger(availableNow=True).start().awaitTermination()


def parse_changes(raw: DataFrame) -> DataFrame:
    """Return the columns of the table with `op` and `lsn`, without tombstones."""
    change = F.from_json(F.col("value").cast("string"), ENVELOPE).alias("change")
    changes = raw.where("value IS NOT NULL").select(change).select("change.*")
    row = F.coalesce("after", "before").alias("row")
    return changes.select(row, "op", "source.lsn").select("row.*", "op", "lsn")


CONTESTANTS: dict[str, Contestant] = {
    "changelog": tidegate_current,
    "changelog (PySpark)": plain_pyspark,
}
