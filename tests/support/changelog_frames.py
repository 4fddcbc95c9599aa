"""Raw Kafka records and changes as DataFrames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tests.support.changelog_oracle import ENDS, Change, Version
from tidegate.changelogs.change_schema import change_type, row_type
from tidegate.sources.kafka_source import RAW_SCHEMA

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = StructType([StructField("id", StringType()), StructField("v", StringType())])
SHAPE = change_type(*row_type(COLUMNS, "id"))
Record = tuple[Any, Any]


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def raw(spark: SparkSession, records: Iterable[Record]) -> DataFrame:
    """Return records in the schema of the Kafka source, with the timestamp START.

    Keys and values that are not bytes are written as JSON.
    """
    rows = [
        ("t", 0, offset, START, _bytes(key), _bytes(value), None)
        for offset, (key, value) in enumerate(records)
    ]
    return spark.createDataFrame(rows, RAW_SCHEMA)


def _bytes(value: Any) -> bytearray | None:
    if value is None or isinstance(value, bytes):
        return None if value is None else bytearray(value)
    return bytearray(json.dumps(value).encode())


def changes(spark: SparkSession, log: Sequence[Change], first: int = 0) -> DataFrame:
    """Return changes of rows (id, v) with consecutive offsets of one partition."""
    rows = []
    for offset, change in enumerate(log, first):
        key = None if change.key is None else (change.key,)
        after = None if change.op in ENDS else (change.key, change.value)
        source = None if change.position is None else list(change.position)
        server = None if source is None else "s"
        committed_at = None if source is None else at(change.at)
        position = ("t", 0, offset, at(offset), server, source, committed_at)
        rows.append((change.op, key, None, after, None, position, at(change.at)))
    return spark.createDataFrame(rows, SHAPE)


def valid_versions(table: DataFrame) -> list[Version]:
    """Return the versions with a non-empty validity period, sorted."""
    times = {
        name: F.unix_millis(name) - F.lit(int(START.timestamp() * 1000))
        for name in ("valid_from", "valid_to")
    }
    rows = table.where("valid_to is null or valid_from < valid_to").withColumns(times).collect()
    assert all(row.is_current == (row.valid_to is None) for row in rows)
    return sorted(
        (Version(row.id, row.v, row.valid_from, row.valid_to) for row in rows),
        key=lambda v: (v.key, v.start),
    )


def values_by_key(rows: Iterable[Row]) -> dict[str, str | None]:
    """Return the value of each key; keys must be unique."""
    pairs = [(row.id, row.v) for row in rows]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
