"""What wrong calls are made with."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from tidegate import aggregates as a
from tidegate import formats, sinks, sources, views, windows
from tidegate.runtime import Input, Job
from tidegate.stores import PostgresStore

N = {"n": a.count()}
MEAN = {"ms": a.mean("ms")}
EPOCHS = "page string, at bigint"
VIEWS = windows.Windowed(windows.Tumbling("1 minute"), by="page", aggs=N)
APPEND = sinks.Append("/tables/views")
STORE = PostgresStore("totals")
VERSIONS = sinks.VersionTable("/tables/versions", on="user", order=["offset"])


def same(rows: Any) -> Any:
    return rows


def both(left: Any, right: Any) -> Any:
    return left


def view(side: str) -> Any:
    return views.KeyedTable(
        f"/tables/{side}", step=side, rows_of=side, key="id", by="id", position="version"
    )


class Given(SimpleNamespace):
    """What calls are made with: a session, clicks as a batch and as a stream, a reading."""

    def job(self, **parts: Any) -> Job:
        whole = {"name": "views", "inputs": {"clicks": Input(self.reading)}, "sink": APPEND}
        return Job(**{**whole, **parts})

    def read(self, **parts: Any) -> sources.Reading:
        whole = {"time": "event_time", "lateness": "1 second"}
        return sources.Reading(self.kafka, self.json, **{**whole, **parts})


def given(spark: SparkSession) -> Given:
    clicks = spark.range(1).selectExpr(
        "timestamp_seconds(id) as event_time", "'/' as page", "'u' as user", "id as ms"
    )
    kafka = sources.KafkaSource("nowhere:9092", "clicks")
    json = formats.json_format("page string, event_time timestamp")
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    return Given(
        spark=spark,
        clicks=clicks,
        stream=stream,
        kafka=kafka,
        json=json,
        reading=sources.Reading(kafka, json, time="event_time", lateness="1 second"),
        partials=windows.tumbling(clicks, "1 minute", aggs=a.partials(N)),
    )


Call = Callable[[Given], object]
