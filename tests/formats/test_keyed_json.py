"""JSON values under keys as the versions of a table's rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ColumnError, ColumnTypeError
from tidegate.formats.json import KeyedJson, keyed_json
from tidegate.sources.kafka import RAW

RECEIVED = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHANGED = datetime(2026, 3, 2, 8, 59, tzinfo=UTC)
SCHEMA = "user_id BIGINT NOT NULL, plan STRING, changed_at TIMESTAMP"
ROW = b'{"user_id":7,"plan":"pro","changed_at":"2026-03-02T08:59:00Z"}'


def users(place: tuple[str, str] = ("partition", "offset")) -> KeyedJson:
    return keyed_json(SCHEMA, key="user_id", time="changed_at", place=place)


def raw(spark: SparkSession, *records: tuple[bytes | None, bytes | None]) -> DataFrame:
    rows = [
        ("users", 3, 40 + number, RECEIVED, _bytes(key), _bytes(value), None)
        for number, (key, value) in enumerate(records)
    ]
    return spark.createDataFrame(rows, RAW)


def _bytes(value: bytes | None) -> bytearray | None:
    return None if value is None else bytearray(value)


def test_a_value_is_the_row_from_its_time_on_and_no_value_ends_it_at_the_records_own_time(
    spark: SparkSession,
) -> None:
    decoded = users().decode(raw(spark, (b"7", ROW), (b"7", None)))
    assert not any(row.bad for row in decoded.collect())
    at = F.unix_seconds("record.event_time").alias("at")
    shown = decoded.orderBy("offset").select("record.*", at)
    names = ["user_id", "plan", "at", "deleted", "partition"]
    assert [tuple(row) for row in shown.select(*names).collect()] == [
        (7, "pro", CHANGED.timestamp(), False, 3),
        (7, None, RECEIVED.timestamp(), True, 3),
    ]
    placed = users(("log_part", "log_offset")).schema.names
    assert placed[-2:] == ["log_part", "log_offset"]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "no key and no value"),
        (b"seven", None, "tombstone whose key cannot be read"),
        (b"\xff\xfe", None, "tombstone whose key cannot be read"),
        (b"7", b'{"plan":"pro","changed_at":"2026-03-02T08:59:00Z"}', "missing field: user_id"),
        (b"7", b'{"user_id":7,"plan"', "malformed JSON"),
        (b"7", b"", "empty value"),
    ],
)
def test_a_record_that_names_no_row_is_bad_and_has_its_reason(
    spark: SparkSession, key: bytes | None, value: bytes | None, reason: str
) -> None:
    given = raw(spark, (key, value))
    assert [row.bad for row in users().decode(given).collect()] == [True]
    assert [row.reason for row in users().diagnose(given).collect()] == [reason]


def test_a_value_without_a_time_has_none_and_does_not_take_its_records(spark: SparkSession) -> None:
    decoded = users().decode(raw(spark, (b"7", b'{"user_id":7}')))
    assert [row.record.event_time for row in decoded.collect()] == [None]


def test_a_schema_without_a_key_or_a_time_is_refused_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="would be nobody's"):
        keyed_json("user_id STRING, event_time TIMESTAMP", key="user_id")
    with pytest.raises(ColumnError, match="time names 'at'"):
        keyed_json("user_id STRING NOT NULL", key="user_id", time="at")
    with pytest.raises(ColumnTypeError, match="of type bigint"):
        keyed_json("user_id STRING NOT NULL, at BIGINT", key="user_id", time="at")
    with pytest.raises(ColumnTypeError, match="a simple type"):
        keyed_json("k STRUCT<a: INT> NOT NULL, event_time TIMESTAMP", key="k")
    with pytest.raises(ColumnError, match="would make Deleted, deleted twice"):
        keyed_json("k INT NOT NULL, Deleted INT, event_time TIMESTAMP", key="k")
