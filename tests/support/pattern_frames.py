"""Conversion of test events to DataFrames, and of result rows to matches of the oracle."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.pattern_oracle import Event, Match
from tests.support.pattern_strategies import SECOND
from tidegate.patterns import Measure, Pattern, events_of

SCHEMA = "event_time timestamp, number bigint, key string, kind string, value int"


def batch(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the events as a batch DataFrame."""
    micros = SCHEMA.replace("event_time timestamp", "micros bigint")
    rows = spark.createDataFrame([tuple(event) for event in events], micros)
    return rows.select(F.timestamp_micros("micros").alias("event_time"), *rows.columns[1:])


def parse_events(text: str) -> list[Event]:
    """Return events of one key, one second apart: "a b1 c-2" has kinds and optional values."""
    return [
        Event(at * SECOND, at, "k", word[0], int(word[1:]) if word[1:] else None)
        for at, word in enumerate(text.split())
    ]


def event_rows(spark: SparkSession, text: str) -> DataFrame:
    """Return the events of `parse_events` as a DataFrame."""
    return batch(spark, parse_events(text))


def number_measures(pattern: Pattern) -> dict[str, Measure]:
    """Return measures with the numbers of the events of each step."""
    return {step.name: events_of(step.name).values("number") for step in pattern.steps}


def matched_numbers(frame: DataFrame, pattern: Pattern) -> list[list[int]]:
    """Return the numbers of the events of each match."""
    rows = frame.orderBy("started", "decided").collect()
    return [[number for step in pattern.steps for number in row[step.name]] for row in rows]


def collect_matches(frame: DataFrame, pattern: Pattern) -> list[Match]:
    """Collect result rows with `outcome` as matches of the oracle."""
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
