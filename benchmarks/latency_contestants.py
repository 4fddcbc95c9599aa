"""Jobs that run on while messages come, until they are stopped: the library's, and by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, largest
from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin, JoinEmission, Lookup
from tidegate.runtime.job import Emission, Input, Job
from tidegate.runtime.process.stop import Stop
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append, Corrected, Sink, Snapshot
from tidegate.sources import KafkaSource, Reading
from tidegate.transform import Transform
from tidegate.windows import Tumbling, Windowed

from .contest import Place
from .impressions import CLICK, IMPRESSION
from .live_table import Live
from .topic import SCHEMA

LATENESS_MS, SIZE = 2_000, "10 seconds"
LATENESS = f"{LATENESS_MS} milliseconds"
WITHIN = ("0 seconds", "5 seconds")
PAIR = {"impressions": IMPRESSION, "clicks": CLICK}
WINDOWS = Windowed(Tumbling(SIZE), by="page", aggs={"views": count(), "newest": largest("ts")})


def _job(
    spark: SparkSession,
    place: Place,
    seconds: float,
    topics: Mapping[str, tuple[str, str]],
    sink: Sink,
    transform: Transform | None = None,
    emission: Emission = "final",
) -> None:
    job = Job(
        name="latency",
        inputs={name: _input(place, *given) for name, given in topics.items()},
        transform=transform,
        emission=emission,
        sink=sink,
        checkpoint=str(place.folder / "checkpoint"),
        every="0 seconds",
    )
    stop = Stop()
    timer = threading.Timer(seconds, stop.ask)
    timer.start()
    try:
        run(job, spark, stop=stop, show=Show())
    finally:
        timer.cancel()


def _input(place: Place, topic: str, schema: str) -> Input:
    return Input(
        Reading(
            source=KafkaSource(servers=place.servers, topics=[topic]),
            format=json_format(schema),
            time=instant(F.col("ts"), "milliseconds"),
            lateness=LATENESS,
        )
    )


def enriched(spark: SparkSession, place: Place, seconds: float) -> None:
    """Join each click with a table."""
    join = Lookup("user", how="left")
    sink = Snapshot(table=str(plans(place)), join=join, sink=Append(_table(place)))
    _job(spark, place, seconds, {"clicks": (place.topic, SCHEMA)}, sink)


def updates(spark: SparkSession, place: Place, seconds: float) -> None:
    """Write windows anew while they grow."""
    sink = Corrected(_table(place), windowed=WINDOWS, log=None)
    clicks = {"clicks": (place.topic, SCHEMA)}
    _job(spark, place, seconds, clicks, sink, WINDOWS, emission="updates")


def final(spark: SparkSession, place: Place, seconds: float) -> None:
    """Write windows once, when they can no longer change."""
    clicks = {"clicks": (place.topic, SCHEMA)}
    _job(spark, place, seconds, clicks, Append(_table(place)), WINDOWS)


def joined(spark: SparkSession, place: Place, seconds: float, *, emission: JoinEmission) -> None:
    """Join impressions with their clicks."""
    topics = {name: (f"{place.topic}-{name}", schema) for name, schema in PAIR.items()}
    transform = IntervalJoin("id", within=WITHIN, how="inner", emission=emission)
    _job(spark, place, seconds, topics, Append(_table(place)), transform)


def _stream(spark: SparkSession, place: Place, topic: str, schema: str) -> DataFrame:
    """Return a topic's rows as one reads them by hand."""
    raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.servers)
    raw = raw.option("subscribe", topic).option("startingOffsets", "earliest")
    rows = raw.load().select(F.from_json(F.col("value").cast("string"), schema).alias("row"))
    rows = rows.select("row.*").withColumn("event_time", F.timestamp_millis("ts"))
    return rows.withWatermark("event_time", LATENESS)


def _by_hand(rows: DataFrame, place: Place, seconds: float) -> None:
    """Append rows by Delta's own sink."""
    writer = rows.writeStream.format("delta").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(place.folder / "checkpoint")).start(
        _table(place)
    )
    time.sleep(seconds)
    query.stop()


def _windows_by_hand(spark: SparkSession, place: Place) -> DataFrame:
    clicks = _stream(spark, place, place.topic, SCHEMA)
    views, newest = F.count(F.lit(1)).alias("views"), F.max("ts").alias("newest")
    return clicks.groupBy(F.window("event_time", SIZE), "page").agg(views, newest)


def enriched_by_hand(spark: SparkSession, place: Place, seconds: float) -> None:
    """Join each click with a table, by Spark's join of a stream with a table."""
    table = spark.read.format("delta").load(str(plans(place)))
    clicks = _stream(spark, place, place.topic, SCHEMA)
    _by_hand(clicks.join(table, "user", "left"), place, seconds)


def updates_by_hand(spark: SparkSession, place: Place, seconds: float) -> None:
    """Merge windows into a table while they grow."""
    windows = _windows_by_hand(spark, place)
    spark.createDataFrame([], windows.schema).write.format("delta").save(_table(place))
    table = DeltaTable.forPath(spark, _table(place)).alias("old")

    def merge(rows: DataFrame, _: int) -> None:
        same = "old.window = new.window AND old.page = new.page"
        merged = table.merge(rows.alias("new"), same)
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    writer = windows.writeStream.outputMode("update").trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(place.folder / "checkpoint"))
    query = writer.foreachBatch(merge).start()
    time.sleep(seconds)
    query.stop()


def final_by_hand(spark: SparkSession, place: Place, seconds: float) -> None:
    """Append windows when the watermark has passed them."""
    _by_hand(_windows_by_hand(spark, place), place, seconds)


def joined_by_hand(spark: SparkSession, place: Place, seconds: float) -> None:
    """Join impressions with their clicks by Spark's own join."""
    (left, right) = (
        _stream(spark, place, f"{place.topic}-{name}", schema).alias(name)
        for name, schema in PAIR.items()
    )
    same = F.col("impressions.id") == F.col("clicks.id")
    seen, clicked = F.col("impressions.event_time"), F.col("clicks.event_time")
    within = clicked.between(seen, seen + F.expr(f"INTERVAL {WITHIN[1]}"))
    times = [
        F.col(f"{name}.ts").alias(f"ts_{side}") for name, side in zip(PAIR, SIDES, strict=True)
    ]
    _by_hand(left.join(right, same & within).select("impressions.id", *times), place, seconds)


def plans(place: Place) -> Path:
    """Return where the table is that clicks are joined with."""
    return place.tables / "plans"


def _table(place: Place) -> str:
    return str(place.folder / "table")


SIDES = ("left", "right")
_TIMES = ("ts_left", "ts_right")
_CLICKS = partial(Live, columns=("ts",), known=lambda rows: rows["ts"])
_UPDATED = partial(
    Live,
    columns=("window", "page", "newest"),
    known=lambda rows: rows["newest"],
    rewritten=True,
)
_JOINED = partial(Live, columns=_TIMES, known=lambda rows: rows[list(_TIMES)].max(axis=1))


def _closed(rows: pd.DataFrame) -> pd.Series[int]:
    """Return when an event could be later than a window by the lateness."""
    # Within a struct, an instant comes as a number of nanoseconds where Spark wrote it so.
    ends = [round(pd.Timestamp(each["end"]).timestamp() * 1_000) for each in rows["window"]]
    return pd.Series(ends, dtype="int64") + LATENESS_MS


_FINAL = partial(Live, columns=("window",), known=_closed)
CONTESTANTS: dict[str, Live] = {
    "enrichment by hand": _CLICKS(enriched_by_hand),
    "enrichment": _CLICKS(enriched),
    "updates by hand": _UPDATED(updates_by_hand),
    "updates": _UPDATED(updates),
    "final windows by hand": _FINAL(final_by_hand),
    "final windows": _FINAL(final),
    "join by hand": _JOINED(joined_by_hand),
    "join, early": _JOINED(partial(joined, emission="early")),
    "join, final": _JOINED(partial(joined, emission="final")),
}
"""By name, each after the one that it is compared with."""
