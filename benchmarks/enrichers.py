"""Ways to enrich a stream by a table, each from Kafka to Delta; one of them in its own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.joins import Lookup
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append, Sink, Snapshot, TemporalJoin, VersionTable
from tidegate.sources import KafkaSource, Reading

from .contest import Contestant, Place, compete
from .topic import EVENTS_A_SECOND, SCHEMA, START_MS, USERS

ROWS_A_BATCH, TABLE_ROWS, VERSIONS_EACH = 1_000_000, 100_000, 4
CHANGES, CHANGE = 10_000, "user STRING NOT NULL, plan STRING, at BIGINT"


def make_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """Write the table, and a history of as many rows: versions that begin while the events
    happen."""
    user = F.format_string("user-%08d", F.col("id") % USERS)
    spark.range(TABLE_ROWS).select(
        user.alias("user"), F.format_string("plan-%d", F.col("id") % 7).alias("plan")
    ).write.format("delta").save(str(folder / "current"))
    span = rows * 1_000 // EVENTS_A_SECOND
    each = TABLE_ROWS // VERSIONS_EACH
    began = F.lit(START_MS) + F.lit(span) * (F.floor(F.col("id") / each) - 1) / (VERSIONS_EACH - 1)
    until = F.when(F.col("id") < TABLE_ROWS - each, began + F.lit(span) / (VERSIONS_EACH - 1))
    spark.range(TABLE_ROWS).select(
        F.format_string("user-%08d", F.col("id") % each * VERSIONS_EACH).alias("user"),
        F.format_string("plan-%d", F.col("id") % 7).alias("plan"),
        F.timestamp_millis(began.cast("bigint")).alias("valid_from"),
        F.timestamp_millis(until.cast("bigint")).alias("valid_to"),
    ).write.format("delta").save(str(folder / "history"))


def fill_changelog(servers: str, topic: str, rows: int, partitions: int) -> None:
    """Send a profile of each user, changes spread over the events' time, and in each partition one
    past all events."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "enable.idempotence": True})
    span = rows * 1_000 // EVENTS_A_SECOND
    first = [(number, START_MS - 60_000) for number in range(TABLE_ROWS)]
    later = [(number * 7 % USERS, START_MS + number * span // CHANGES) for number in range(CHANGES)]
    last = [(user, START_MS + span + 60_000) for user in range(partitions)]
    for number, (user, at) in enumerate([*first, *later, *last]):
        value = b'{"user":"user-%08d","plan":"plan-%d","at":%d}' % (user, number % 7, at)
        producer.produce(topic, value, partition=user % partitions)
        producer.poll(0)
    producer.flush()


def _by_hand(joined: Callable[[DataFrame, Path], DataFrame]) -> Contestant:
    def contest(spark: SparkSession, place: Place) -> None:
        raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.servers)
        raw = raw.option("subscribe", place.topic).option("startingOffsets", "earliest")
        rows = raw.option("maxOffsetsPerTrigger", ROWS_A_BATCH).load()
        clicks = rows.select(
            F.from_json(F.col("value").cast("string"), SCHEMA).alias("click")
        ).select("click.*")
        result = joined(clicks.withColumn("event_time", F.timestamp_millis("ts")), place.tables)
        writer = result.writeStream.format("delta").option(
            "checkpointLocation", str(place.folder / "checkpoint")
        )
        writer.trigger(availableNow=True).start(str(place.folder / "table")).awaitTermination()

    return contest


def _table(clicks: DataFrame, path: Path) -> DataFrame:
    return clicks.sparkSession.read.format("delta").load(str(path))


def _current(clicks: DataFrame, tables: Path) -> DataFrame:
    return clicks.join(_table(clicks, tables / "current"), "user", "left")


def _range(clicks: DataFrame, tables: Path) -> DataFrame:
    history = _table(clicks, tables / "history").withColumnRenamed("user", "whose")
    at, until = F.col("event_time"), F.col("valid_to")
    valid = (at >= F.col("valid_from")) & (until.isNull() | (at < until))
    return clicks.join(history, (F.col("user") == F.col("whose")) & valid, "left").drop(
        "whose", "valid_to"
    )


def _input(place: Place, topic: str, schema: str, time: Column) -> Input:
    source = KafkaSource(servers=place.servers, topics=[topic], max_rows=ROWS_A_BATCH)
    keep = ["partition", "offset"] if schema == CHANGE else []
    reading = Reading(
        source=source,
        format=json_format(schema),
        time=time,
        lateness="10 seconds",
        future_tolerance=None,
        keep=keep,
    )
    return Input(reading=reading)


def _tidegate(sink: Callable[[Place], Sink], *, changelog: bool = False) -> Contestant:
    def contest(spark: SparkSession, place: Place) -> None:
        inputs = {"clicks": _input(place, place.topic, SCHEMA, instant(F.col("ts")))}
        if changelog:
            changes = _input(place, f"{place.topic}-changes", CHANGE, instant(F.col("at")))
            inputs["profiles"] = changes
        job = Job(
            name="bench",
            inputs=inputs,
            sink=sink(place),
            checkpoint=str(place.folder / "checkpoint"),
            dead=str(place.folder / "dead"),
        )
        run(job, spark, show=Show())

    return contest


def _target(place: Place) -> Append:
    return Append(path=str(place.folder / "table"))


def _snapshot(name: str, as_of: str | None) -> Callable[[Place], Sink]:
    def sink(place: Place) -> Sink:
        return Snapshot(
            table=str(place.tables / name),
            join=Lookup("user", how="left", as_of=as_of),
            sink=_target(place),
        )

    return sink


def _waiting(place: Place) -> Sink:
    return TemporalJoin(
        str(place.folder / "table"),
        waiting=str(place.folder / "waiting"),
        versions=VersionTable(
            str(place.folder / "versions"),
            on="user",
            order=["offset"],
            partition=["partition"],
            changes=lambda profiles: profiles.drop("at"),
        ),
        lateness="10 seconds",
        events="clicks",
        changes="profiles",
    )


CONTESTANTS: dict[str, Contestant] = {
    "no join": _tidegate(_target),
    "snapshot by hand": _by_hand(_current),
    "snapshot": _tidegate(_snapshot("current", None)),
    "history by hand": _by_hand(_range),
    "history": _tidegate(_snapshot("history", "event_time")),
    "changelog": _tidegate(_waiting, changelog=True),
}
"""By name. The ratio of each is taken to the same by hand, of the same round; of "changelog" to
"history by hand"."""


if __name__ == "__main__":
    compete(CONTESTANTS, make_tables)
