"""DataFrames of test events, and result rows as comparable tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support.window_oracle import SECOND, Event, WindowRow
from tests.support.window_strategies import BASE, SPAN, WATERMARK_DELAY, Arrival
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.testing import StreamDriver

SCHEMA = "event_time timestamp, key string, value int"
AGGS: dict[str, Aggregate] = {
    "n": agg.count(),
    "sum": agg.sum("value"),
    "low": agg.min("value"),
    "last": agg.last("value"),
}

Transform = Callable[[DataFrame], DataFrame]


def instant(micros: int) -> datetime:
    """Return the timestamp of microseconds since 1970."""
    return UNIX_EPOCH + timedelta(microseconds=micros)


def batch(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the events as a batch DataFrame."""
    return spark.createDataFrame([(instant(e.micros), e.key, e.value) for e in events], SCHEMA)


def window_rows(frame: DataFrame) -> Counter[WindowRow]:
    """Return the rows of a result as a multiset of tuples of the oracle."""
    micros = frame.withColumn("start", F.unix_micros("window.start")).withColumn(
        "end", F.unix_micros("window.end")
    )
    return Counter(tuple(row) for row in micros.select("start", "end", "key", *AGGS).collect())


def run_stream(spark: SparkSession, arrival: Arrival, transform: Transform) -> Counter[WindowRow]:
    """Return the results of the arrival as a stream with restarts."""
    with StreamDriver(
        spark, SCHEMA, transform, watermark_delay=f"{WATERMARK_DELAY // SECOND} seconds"
    ) as stream:
        for number, events in enumerate(arrival.batches):
            stream.feed(batch(spark, events))
            if number in arrival.restarts:
                stream.restart()
        stream.advance_to(instant(BASE + 10 * SPAN))
        return window_rows(stream.results())


def relative_windows(rows: Iterable[Row], *columns: str) -> list[tuple[object, ...]]:
    """Return rows as sorted (start, end, columns...), in seconds since BASE."""

    def seconds(at: datetime) -> float:
        return (round(at.timestamp() * SECOND) - BASE) / SECOND

    relative_rows = [
        (seconds(row.window.start), seconds(row.window.end), *[row[name] for name in columns])
        for row in rows
    ]
    return sorted(relative_rows, key=repr)
