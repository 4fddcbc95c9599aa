"""Bytes -> typed rows with an event time, and the rows that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession

from .formats import Format
from .kafka import KafkaSource, Offsets

OBSERVATION = "tidegate"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A source, its format and its event time.

    Observed under the name `OBSERVATION` in each batch: `rows` (raw rows), `dead`, and `earliest` and `latest`, the
    good rows' smallest and largest event time in microseconds since 1970 (None without a good row).
    """

    source: KafkaSource
    format: Format
    time: str | Column
    lateness: str | timedelta
    keep: Sequence[str] = ()
    future_tolerance: str | timedelta | None = "1 hour"
    value_cap: int = 65_536

    def stream(self, spark: SparkSession) -> DataFrame:
        """Give the good rows: the fields, `event_time` under its watermark, then the kept Kafka columns."""
        raise NotImplementedError

    def rows(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Give the good rows of one offset range as a batch, with topic, partition, offset and timestamp."""
        raise NotImplementedError

    def dead(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Give the rows of one offset range that could not be read.

        Columns: topic, partition, offset, timestamp, key, value, value_bytes, headers, stage, reason.
        """
        raise NotImplementedError
