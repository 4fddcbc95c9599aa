"""From the tests' events to DataFrames, and from result rows to the oracle's."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.patterns import Measure, Pattern, of

from .oracle import Event, Match
from .strategies import SECOND

SCHEMA = "event_time timestamp, number bigint, key string, kind string, value int"


def batch(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the events as a batch DataFrame."""
    micros = SCHEMA.replace("event_time timestamp", "micros bigint")
    rows = spark.createDataFrame([tuple(event) for event in events], micros)
    return rows.select(F.timestamp_micros("micros").alias("event_time"), *rows.columns[1:])


def told(text: str) -> list[Event]:
    """Return events of one key, a second apart: "a b1 c-2" are kinds, with their values."""
    return [
        Event(at * SECOND, at, "k", word[0], int(word[1:]) if word[1:] else None)
        for at, word in enumerate(text.split())
    ]


def story(spark: SparkSession, text: str) -> DataFrame:
    """Return the events that a text tells."""
    return batch(spark, told(text))


def numbers(pattern: Pattern) -> dict[str, Measure]:
    """Return measures that tell which events each step has taken."""
    return {step.name: of(step.name).values("number") for step in pattern.steps}


def taken(frame: DataFrame, pattern: Pattern) -> list[list[int]]:
    """Return the numbers of the events of each match."""
    rows = frame.orderBy("started", "decided").collect()
    return [[number for step in pattern.steps for number in row[step.name]] for row in rows]


def results(frame: DataFrame, pattern: Pattern) -> list[Match]:
    """Return a result's rows as the oracle has them; it has an outcome."""
    rows = frame.withColumn("decided", F.unix_micros("decided")).collect()
    return [
        Match(
            row.key,
            row.decided,
            row.outcome == "match",
            tuple((step.name, number) for step in pattern.steps for number in row[step.name]),
        )
        for row in rows
    ]
