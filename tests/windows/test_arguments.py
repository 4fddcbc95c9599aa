"""Every bad argument is refused at the call, and the message says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, smallest, total
from tidegate.errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    TidegateError,
    WatermarkError,
)
from tidegate.windows import hopping, session, sliding, tumbling

from .frames import batch
from .oracle import Event
from .strategies import BASE

N = {"n": count()}
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
    ("options", "error", "says"),
    [
        ({"by": "nowhere", "aggs": N}, ColumnError, "the columns are event_time, key, value, tags"),
        ({"by": ["key", "key"], "aggs": N}, ColumnError, "each column once"),
        ({"by": [1], "aggs": N}, ColumnTypeError, "column names as text"),
        ({"time": "nowhere", "aggs": N}, ColumnError, "nowhere"),
        ({"time": "value", "aggs": N}, ColumnTypeError, "is of type int"),
        ({"aggs": {}}, ArgumentError, r"aggs=\{'n': count\(\)\}"),
        ({"aggs": {"n": "count"}}, ColumnTypeError, "an Aggregate such as count"),
        ({"aggs": {"window": count()}}, ColumnError, "window"),
        ({"by": "key", "aggs": {"KEY": count()}}, ColumnError, "KEY"),
        ({"aggs": {"n": total("nowhere")}}, ColumnError, "nowhere"),
        ({"aggs": {"n": total("key")}}, ColumnTypeError, "a number"),
        ({"aggs": {"n": smallest("tags")}}, ColumnTypeError, "have an order"),
    ],
)
def test_all_windows_refuse_what_they_can_not_take(
    clicks: DataFrame,
    call: Callable[..., DataFrame],
    options: dict[str, Any],
    error: type[TidegateError],
    says: str,
) -> None:
    with pytest.raises(error, match=says):
        call(clicks, **options)


@pytest.mark.parametrize(
    "size", ["0 seconds", "-1 minute", "1 month", "1 year", "soon", "", "10", 5, "5 parsecs", None]
)
def test_a_duration_that_is_none_is_refused(clicks: DataFrame, size: Any) -> None:
    for call in (tumbling, sliding, session):
        with pytest.raises(TidegateError, match=r"allowed: .*10 seconds|allowed: .*timedelta"):
            call(clicks, size, aggs=N)


def test_a_hop_longer_than_the_size_would_leave_gaps(clicks: DataFrame) -> None:
    with pytest.raises(ArgumentError, match="gaps between windows"):
        hopping(clicks, "1 minute", "2 minutes", aggs=N)


def test_a_stream_without_a_watermark_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    for call in CALLS.values():
        with pytest.raises(WatermarkError, match="withWatermark"):
            call(stream, aggs=N)
    assert tumbling(stream.withWatermark("event_time", "1 second"), "1 minute", aggs=N).isStreaming


def test_a_spark_column_that_aggregates_nothing_is_refused(clicks: DataFrame) -> None:
    with pytest.raises(ColumnError, match="Spark aggregate expression"):
        tumbling(clicks, "1 minute", aggs={"n": F.col("value")})


def test_bad_calls_are_also_the_built_in_errors(clicks: DataFrame) -> None:
    with pytest.raises(ValueError, match="size"):
        tumbling(clicks, "0 seconds", aggs=N)
    with pytest.raises(TypeError, match="of type int"):
        tumbling(clicks, "1 minute", aggs=N, time="value")
