"""Keyed JSON changelogs become upserts and deletions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ColumnError, ColumnTypeError
from tidegate.formats.json import UpsertJsonFormat, upsert_json_format
from tidegate.sources.kafka_source import RAW_SCHEMA

RECEIVED = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHANGED = datetime(2026, 3, 2, 8, 59, tzinfo=UTC)
SCHEMA = "user_id BIGINT NOT NULL, plan STRING, changed_at TIMESTAMP"
ROW = b'{"user_id":7,"plan":"pro","changed_at":"2026-03-02T08:59:00Z"}'


def users(log_position: tuple[str, str] = ("partition", "offset")) -> UpsertJsonFormat:
    return upsert_json_format(SCHEMA, key="user_id", time="changed_at", log_position=log_position)


def raw(spark: SparkSession, *records: tuple[bytes | None, bytes | None]) -> DataFrame:
    rows = [
        ("users", 3, 40 + number, RECEIVED, _bytes(key), _bytes(value), None)
        for number, (key, value) in enumerate(records)
    ]
    return spark.createDataFrame(rows, RAW_SCHEMA)


def _bytes(value: bytes | None) -> bytearray | None:
    return None if value is None else bytearray(value)


def test_a_value_upserts_a_row_and_a_tombstone_deletes_it_at_the_record_timestamp(
    spark: SparkSession,
) -> None:
    decoded = users().decode(raw(spark, (b"7", ROW), (b"7", None)))
    assert not any(row.bad for row in decoded.collect())
    at = F.unix_seconds("record.event_time").alias("at")
    rows = decoded.orderBy("offset").select("record.*", at)
    names = ["user_id", "plan", "at", "deleted", "partition"]
    assert [tuple(row) for row in rows.select(*names).collect()] == [
        (7, "pro", CHANGED.timestamp(), False, 3),
        (7, None, RECEIVED.timestamp(), True, 3),
    ]
    renamed = users(("log_part", "log_offset")).schema.names
    assert renamed[-2:] == ["log_part", "log_offset"]


def test_a_field_named_deleted_requires_another_name_for_the_column_of_deletions(
    spark: SparkSession,
) -> None:
    fields = "k INT NOT NULL, deleted STRING, event_time TIMESTAMP"
    value_format = upsert_json_format(fields, key="k", deleted="is_deleted")
    decoded = value_format.decode(raw(spark, (b"7", b'{"k":7,"deleted":"no"}'), (b"7", None)))
    rows = decoded.orderBy("offset").select("record.deleted", "record.is_deleted").collect()
    assert [tuple(row) for row in rows] == [("no", False), (None, True)]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "no key and no value"),
        (b"seven", None, "tombstone with an unreadable key"),
        (b"\xff\xfe", None, "tombstone with an unreadable key"),
        (b"7", b'{"plan":"pro","changed_at":"2026-03-02T08:59:00Z"}', "missing field: user_id"),
        (b"7", b'{"user_id":7,"plan"', "malformed JSON"),
        (b"7", b"", "empty value"),
    ],
)
def test_a_record_without_a_valid_key_is_a_dead_letter_with_a_reason(
    spark: SparkSession, key: bytes | None, value: bytes | None, reason: str
) -> None:
    records = raw(spark, (key, value))
    assert [row.bad for row in users().decode(records).collect()] == [True]
    assert [row.reason for row in users().explain_failures(records).collect()] == [reason]


def test_a_value_without_a_time_has_a_null_event_time(spark: SparkSession) -> None:
    decoded = users().decode(raw(spark, (b"7", b'{"user_id":7}')))
    assert [row.record.event_time for row in decoded.collect()] == [None]


def test_a_schema_without_a_key_or_a_time_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="invalid key: 'user_id'"):
        upsert_json_format("user_id STRING, event_time TIMESTAMP", key="user_id")
    with pytest.raises(ColumnError, match="invalid time: 'at'"):
        upsert_json_format("user_id STRING NOT NULL", key="user_id", time="at")
    with pytest.raises(ColumnTypeError, match="invalid type of time 'at': bigint"):
        upsert_json_format("user_id STRING NOT NULL, at BIGINT", key="user_id", time="at")
    with pytest.raises(ColumnTypeError, match="invalid type of key 'k': struct<a:int>"):
        upsert_json_format("k STRUCT<a: INT> NOT NULL, event_time TIMESTAMP", key="k")
    with pytest.raises(ColumnError, match="duplicate columns in the decoded row: Deleted, deleted"):
        upsert_json_format("k INT NOT NULL, Deleted INT, event_time TIMESTAMP", key="k")
