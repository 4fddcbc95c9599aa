"""From the tests' events to DataFrames, and from result rows to comparable tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, last, smallest, total
from tidegate.commit import EPOCH
from tidegate.testing import StreamDriver

from .oracle import SECOND, Answer, Event
from .strategies import BASE, LATENESS, SPAN, Arrival

SCHEMA = "event_time timestamp, key string, value int"
AGGS: dict[str, Aggregate] = {
    "n": count(),
    "sum": total("value"),
    "low": smallest("value"),
    "last": last("value"),
}

Transform = Callable[[DataFrame], DataFrame]


def instant(micros: int) -> datetime:
    """Return the instant of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def batch(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the events as a batch DataFrame."""
    return spark.createDataFrame([(instant(e.micros), e.key, e.value) for e in events], SCHEMA)


def answers(frame: DataFrame) -> Counter[Answer]:
    """Return a result's rows as a multiset of the oracle's tuples."""
    micros = frame.withColumn("start", F.unix_micros("window.start")).withColumn(
        "end", F.unix_micros("window.end")
    )
    return Counter(tuple(row) for row in micros.select("start", "end", "key", *AGGS).collect())


def streamed(spark: SparkSession, arrival: Arrival, transform: Transform) -> Counter[Answer]:
    """Run the arrival as a stream, restarts included, to its end, and give what came out."""
    with StreamDriver(spark, SCHEMA, transform, lateness=f"{LATENESS // SECOND} seconds") as stream:
        for number, events in enumerate(arrival.batches):
            stream.feed(batch(spark, events))
            if number in arrival.restarts:
                stream.restart()
        stream.advance_to(instant(BASE + 10 * SPAN))
        return answers(stream.results())


def windows(rows: Iterable[Row], *columns: str) -> list[tuple[object, ...]]:
    """Return rows as sorted (start seconds, end seconds, columns...) since BASE, for literal
    expectations."""

    def seconds(at: datetime) -> float:
        return (round(at.timestamp() * SECOND) - BASE) / SECOND

    made = [
        (seconds(row.window.start), seconds(row.window.end), *[row[name] for name in columns])
        for row in rows
    ]
    return sorted(made, key=repr)
