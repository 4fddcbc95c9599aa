"""The arguments of wrong calls."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from tidegate import Job, formats, sinks, sources, views, windows
from tidegate import aggregates as a
from tidegate.stores import PostgresStore

N = {"n": a.count()}
MEAN = {"ms": a.avg("ms")}
EPOCHS = "page string, at bigint"
VIEWS = windows.WindowAggregation(windows.Tumbling("1 minute"), by="page", aggs=N)
APPEND = sinks.Append("/tables/views")
STORE = PostgresStore("totals")
VERSIONS = sinks.VersionedTable("/tables/versions", key="user", order=["offset"])


def same(rows: Any) -> Any:
    return rows


def both(left: Any, right: Any) -> Any:
    return left


def view(side: str) -> Any:
    return views.KeyedTable(
        f"/tables/{side}", output=side, input=side, key="id", lookup_by="id", order_by="version"
    )


class CallInputs(SimpleNamespace):
    """A session, clicks as a batch and as a stream, and an input of clicks."""

    def job(self, **options: Any) -> Job:
        defaults = {"name": "views", "inputs": {"clicks": self.clicks_input}, "sink": APPEND}
        return Job(**{**defaults, **options})

    def input(self, **options: Any) -> sources.Input:
        defaults = {"time": "event_time", "watermark_delay": "1 second"}
        return sources.Input(self.kafka, self.json, **{**defaults, **options})


def call_inputs(spark: SparkSession) -> CallInputs:
    clicks = spark.range(1).selectExpr(
        "timestamp_seconds(id) as event_time", "'/' as page", "'u' as user", "id as ms"
    )
    kafka = sources.KafkaSource("nowhere:9092", "clicks")
    json = formats.json_format("page string, event_time timestamp")
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    return CallInputs(
        spark=spark,
        clicks=clicks,
        stream=stream,
        kafka=kafka,
        json=json,
        clicks_input=sources.Input(kafka, json, time="event_time", watermark_delay="1 second"),
        partials=windows.tumbling(clicks, "1 minute", aggs=a.partials(N)),
    )


Call = Callable[[CallInputs], object]
