"""Kafka topics as raw rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

Offsets: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """Which topics are read, from where on, and how much at a time."""

    servers: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    partitions: Mapping[str, Sequence[int]] | None = None
    start: Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]] | datetime = "earliest"
    max_rows: int | None = 1_000_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Give the topics as a stream of raw rows: topic, partition, offset, timestamp, key, value, headers."""
        raise NotImplementedError

    def between(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Give exactly one offset range, start inclusive and end exclusive, as a batch of the same columns."""
        raise NotImplementedError
