"""Invalid arguments of windows raise an error at the call, with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.window_frames import batch
from tests.support.window_oracle import Event
from tests.support.window_strategies import BASE
from tidegate import aggregates as agg
from tidegate.errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    TidegateError,
    WatermarkError,
)
from tidegate.windows import hopping, session, sliding, tumbling

N = {"n": agg.count()}
CALLS: dict[str, Callable[..., DataFrame]] = {
    "tumbling": lambda e, **options: tumbling(e, "1 minute", **options),
    "hopping": lambda e, **options: hopping(e, "1 minute", "1 second", **options),
    "sliding": lambda e, **options: sliding(e, "1 minute", **options),
    "session": lambda e, **options: session(e, "1 minute", **options),
}


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    return batch(spark, [Event(BASE, "a", 1)]).withColumn(
        "tags", F.create_map(F.lit("a"), F.lit(1))
    )


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"by": "nowhere", "aggs": N}, ColumnError, "one of event_time, key, value, tags"),
        ({"by": ["key", "key"], "aggs": N}, ColumnError, "each column once"),
        ({"by": [1], "aggs": N}, ColumnTypeError, "column names as text"),
        ({"time": "nowhere", "aggs": N}, ColumnError, "nowhere"),
        ({"time": "value", "aggs": N}, ColumnTypeError, "has type int"),
        ({"aggs": {}}, ArgumentError, r"aggs=\{'n': count\(\)\}"),
        ({"aggs": {"n": "count"}}, ColumnTypeError, "an Aggregate such as count"),
        ({"aggs": {"window": agg.count()}}, ColumnError, "window"),
        ({"by": "key", "aggs": {"KEY": agg.count()}}, ColumnError, "KEY"),
        ({"aggs": {"n": agg.sum("nowhere")}}, ColumnError, "nowhere"),
        ({"aggs": {"n": agg.sum("key")}}, ColumnTypeError, "a number"),
        ({"aggs": {"n": agg.min("tags")}}, ColumnTypeError, "a type with an order"),
    ],
)
def test_invalid_arguments_of_all_windows_raise(
    clicks: DataFrame,
    call: Callable[..., DataFrame],
    options: dict[str, Any],
    error: type[TidegateError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        call(clicks, **options)


@pytest.mark.parametrize(
    "size", ["0 seconds", "-1 minute", "1 month", "1 year", "soon", "", "10", 5, "5 parsecs", None]
)
def test_an_invalid_duration_raises(clicks: DataFrame, size: Any) -> None:
    for call in (tumbling, sliding, session):
        with pytest.raises(TidegateError, match=r"expected: .*timedelta.*10 seconds"):
            call(clicks, size, aggs=N)


def test_a_hop_longer_than_the_size_raises(clicks: DataFrame) -> None:
    with pytest.raises(ArgumentError, match="gaps between windows"):
        hopping(clicks, "1 minute", "2 minutes", aggs=N)


def test_a_stream_without_a_watermark_raises(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    for call in CALLS.values():
        with pytest.raises(WatermarkError, match="withWatermark"):
            call(stream, aggs=N)
    assert tumbling(stream.withWatermark("event_time", "1 second"), "1 minute", aggs=N).isStreaming


def test_a_spark_column_that_is_not_an_aggregate_raises(clicks: DataFrame) -> None:
    with pytest.raises(ColumnError, match="Spark aggregate expression"):
        tumbling(clicks, "1 minute", aggs={"n": F.col("value")})


def test_errors_are_also_built_in_errors(clicks: DataFrame) -> None:
    with pytest.raises(ValueError, match="size"):
        tumbling(clicks, "0 seconds", aggs=N)
    with pytest.raises(TypeError, match="has type int"):
        tumbling(clicks, "1 minute", aggs=N, time="value")


def test_a_nested_time_that_cannot_be_used_raises(spark: SparkSession, clicks: DataFrame) -> None:
    minutes = tumbling(clicks, "1 minute", aggs=N)
    for time, message in (
        ("window.begin", "no such struct field|No such struct field"),
        ("windows.start", "no column 'windows'"),
    ):
        with pytest.raises(TidegateError, match=message):
            tumbling(minutes, "1 day", time=time, aggs=N)
    stream = (
        spark.readStream.format("rate").load().selectExpr("struct(timestamp as start) as window")
    )
    with pytest.raises(TidegateError, match="a field, on a stream"):
        tumbling(stream, "1 day", time="window.start", aggs=N)
