"""Enrichment of a stream with a table, from Kafka to Delta, in the library and in plain PySpark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support.click_topic import (
    EVENTS_A_SECOND,
    SCHEMA,
    START_MS,
    USERS,
    produce_when_possible,
)
from benchmarks.support.contestant_process import Contestant, RunContext, run_contestant
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.joins import LookupJoin
from tidegate.sinks import Append, Sink, SnapshotJoin, TemporalJoin, VersionedTable
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay

ROWS_A_BATCH, TABLE_ROWS, VERSIONS_EACH = 1_000_000, 100_000, 4
CHANGES, CHANGE = 10_000, "user STRING NOT NULL, plan STRING, at BIGINT"


def make_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """Write the table, and a history of as many rows, whose versions start during the events."""
    user = F.format_string("user-%08d", F.col("id") % USERS)
    spark.range(TABLE_ROWS).select(
        user.alias("user"), F.format_string("plan-%d", F.col("id") % 7).alias("plan")
    ).write.format("delta").save(str(folder / "current"))
    span = rows * 1_000 // EVENTS_A_SECOND
    each = TABLE_ROWS // VERSIONS_EACH
    started_at = F.lit(START_MS) + F.lit(span) * (F.floor(F.col("id") / each) - 1) / (
        VERSIONS_EACH - 1
    )
    until = F.when(F.col("id") < TABLE_ROWS - each, started_at + F.lit(span) / (VERSIONS_EACH - 1))
    spark.range(TABLE_ROWS).select(
        F.format_string("user-%08d", F.col("id") % each * VERSIONS_EACH).alias("user"),
        F.format_string("plan-%d", F.col("id") % 7).alias("plan"),
        F.timestamp_millis(started_at.cast("bigint")).alias("valid_from"),
        F.timestamp_millis(until.cast("bigint")).alias("valid_to"),
    ).write.format("delta").save(str(folder / "history"))


def fill_changelog(servers: str, topic: str, rows: int, partitions: int) -> None:
    """Send a profile of each user, changes during the events, and one change after all events."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "enable.idempotence": True})
    span = rows * 1_000 // EVENTS_A_SECOND
    first = [(number, START_MS - 60_000) for number in range(TABLE_ROWS)]
    later = [(number * 7 % USERS, START_MS + number * span // CHANGES) for number in range(CHANGES)]
    last = [(user, START_MS + span + 60_000) for user in range(partitions)]
    for number, (user, at) in enumerate([*first, *later, *last]):
        value = b'{"user":"user-%08d","plan":"plan-%d","at":%d}' % (user, number % 7, at)
        produce_when_possible(producer, topic, value, user % partitions)
        producer.poll(0)
    producer.flush()


def _plain_pyspark(joined: Callable[[DataFrame, Path], DataFrame]) -> Contestant:
    def run_query(spark: SparkSession, context: RunContext) -> None:
        raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", context.servers)
        raw = raw.option("subscribe", context.topic).option("startingOffsets", "earliest")
        rows = raw.option("maxOffsetsPerTrigger", ROWS_A_BATCH).load()
        clicks = rows.select(
            F.from_json(F.col("value").cast("string"), SCHEMA).alias("click")
        ).select("click.*")
        result = joined(clicks.withColumn("event_time", F.timestamp_millis("ts")), context.tables)
        writer = result.writeStream.format("delta").option(
            "checkpointLocation", str(context.folder / "checkpoint")
        )
        writer.trigger(availableNow=True).start(str(context.folder / "table")).awaitTermination()

    return run_query


def _table(clicks: DataFrame, path: Path) -> DataFrame:
    return clicks.sparkSession.read.format("delta").load(str(path))


def _current(clicks: DataFrame, tables: Path) -> DataFrame:
    return clicks.join(_table(clicks, tables / "current"), "user", "left")


def _range(clicks: DataFrame, tables: Path) -> DataFrame:
    history = _table(clicks, tables / "history").withColumnRenamed("user", "history_user")
    at, until = F.col("event_time"), F.col("valid_to")
    valid = (at >= F.col("valid_from")) & (until.isNull() | (at < until))
    return clicks.join(history, (F.col("user") == F.col("history_user")) & valid, "left").drop(
        "history_user", "valid_to"
    )


def _input(context: RunContext, topic: str, schema: str, time: Column) -> Input:
    source = KafkaSource(
        bootstrap_servers=context.servers, topics=[topic], max_records_per_batch=ROWS_A_BATCH
    )
    kafka_columns = ["partition", "offset"] if schema == CHANGE else []
    return Input(
        source=source,
        format=json_format(schema),
        time=time,
        watermark_delay="10 seconds",
        future_tolerance=None,
        kafka_columns=kafka_columns,
    )


def _tidegate(sink: Callable[[RunContext], Sink], *, changelog: bool = False) -> Contestant:
    def run_query(spark: SparkSession, context: RunContext) -> None:
        inputs = {"clicks": _input(context, context.topic, SCHEMA, epoch_to_timestamp(F.col("ts")))}
        if changelog:
            changes = _input(
                context, f"{context.topic}-changes", CHANGE, epoch_to_timestamp(F.col("at"))
            )
            inputs["profiles"] = changes
        job = Job(
            name="bench",
            inputs=inputs,
            sink=sink(context),
            checkpoint=str(context.folder / "checkpoint"),
            dead_letters=str(context.folder / "dead"),
        )
        run(job, spark, display=ProgressDisplay())

    return run_query


def _target(context: RunContext) -> Append:
    return Append(path=str(context.folder / "table"))


def _snapshot(name: str, as_of: str | None) -> Callable[[RunContext], Sink]:
    def sink(context: RunContext) -> Sink:
        return SnapshotJoin(
            table=str(context.tables / name),
            join=LookupJoin("user", how="left", as_of=as_of),
            sink=_target(context),
        )

    return sink


def _temporal_join(context: RunContext) -> Sink:
    return TemporalJoin(
        str(context.folder / "table"),
        pending_table=str(context.folder / "pending"),
        versions=VersionedTable(
            str(context.folder / "versions"),
            key="user",
            order=["offset"],
            partition=["partition"],
            to_changes=lambda profiles: profiles.drop("at"),
        ),
        watermark_delay="10 seconds",
        events="clicks",
        changes="profiles",
    )


CONTESTANTS: dict[str, Contestant] = {
    "no join": _tidegate(_target),
    "snapshot (PySpark)": _plain_pyspark(_current),
    "snapshot": _tidegate(_snapshot("current", None)),
    "history (PySpark)": _plain_pyspark(_range),
    "history": _tidegate(_snapshot("history", "event_time")),
    "changelog": _tidegate(_temporal_join, changelog=True),
}


if __name__ == "__main__":
    run_contestant(CONTESTANTS, make_tables)
