"""Debezium's records as changes, or with the reason why they are none."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.formats import debezium, json_format
from tidegate.formats._decoder import ChangeFormat
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import StreamDriver

from ..changes.frames import Record, raw

COLUMNS = "id BIGINT NOT NULL, name STRING NOT NULL, credit DECIMAL(10, 2), photo BINARY"
MS = 1_767_225_600_000
POSTGRES = {
    "connector": "postgresql",
    "ts_ms": MS,
    "ts_us": MS * 1000 + 7,
    "lsn": 24023128,
    "snapshot": "false",
}
ANN = {"id": 1, "name": "Ann", "credit": "12.50", "photo": None}
BOB = {"id": 1, "name": "Bob", "credit": None, "photo": "/wA="}
KEY = {"id": 1}


@pytest.fixture(scope="module")
def by_source(spark: SparkSession) -> ChangeFormat:
    return debezium(COLUMNS, key="id", using=json_format, position="source")


@pytest.fixture(scope="module")
def by_log(spark: SparkSession) -> ChangeFormat:
    return debezium(COLUMNS, key="id", using=json_format)


def event(
    op: Any, before: Any = None, after: Any = None, source: Any = POSTGRES, **more: Any
) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": MS + 500, **more}


def with_schema(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": {"type": "struct", "optional": False, "fields": [{"field": "op"}]},
        "payload": value,
    }


def read(spark: SparkSession, form: ChangeFormat, records: list[Record]) -> list[Row]:
    decoded = form.decode(raw(spark, records))
    return decoded.orderBy("offset").select("record.*", "bad").collect()


def reasons(spark: SparkSession, form: ChangeFormat, records: list[Record]) -> list[str | None]:
    decoded = form.decode(raw(spark, records))
    told = form.diagnose(decoded.where("bad")).select("offset", "reason").collect()
    found = {row.offset: row.reason for row in told}
    assert None not in found.values()
    return [found.get(offset) for offset in range(len(records))]


def micros(row: Row) -> int:
    at: datetime = row.event_time
    return round(at.timestamp() * 1_000_000)


GOOD: list[tuple[Record, str, tuple[str | None, str | None]]] = [
    ((KEY, event("c", None, ANN)), "create", (None, "Ann")),
    ((KEY, event("u", ANN, BOB)), "update", ("Ann", "Bob")),
    ((KEY, event("u", None, BOB)), "update", (None, "Bob")),
    ((KEY, event("r", None, ANN)), "snapshot", (None, "Ann")),
    ((KEY, event("d", BOB)), "delete", ("Bob", None)),
    ((KEY, event("d", {"id": 1, "name": None})), "delete", (None, None)),
    ((KEY, event("d")), "delete", (None, None)),
    ((KEY, None), "tombstone", (None, None)),
    ((with_schema(KEY), None), "tombstone", (None, None)),
    ((with_schema(KEY), with_schema(event("u", ANN, BOB))), "update", ("Ann", "Bob")),
    ((with_schema(KEY), with_schema(event("d"))), "delete", (None, None)),
    (
        (None, event("c", None, ANN, transaction={"id": "1", "total_order": 1})),
        "create",
        (None, "Ann"),
    ),
]


def test_events_with_and_without_their_schema_are_changes_of_one_shape(
    spark: SparkSession, by_source: ChangeFormat
) -> None:
    rows = read(spark, by_source, [record for record, _, _ in GOOD])
    names = [(row.before and row.before.name, row.after and row.after.name) for row in rows]
    assert [row.bad for row in rows] == [False] * len(GOOD)
    assert [(row.op, pair) for row, pair in zip(rows, names, strict=True)] == [
        (op, pair) for _, op, pair in GOOD
    ]
    assert {row.key.id for row in rows} == {1}
    assert rows[1].after.asDict() == {"id": 1, "name": "Bob", "credit": None, "photo": b"\xff\x00"}
    assert (str(rows[0].after.credit), rows[0].place.offset, rows[-1].place.offset) == (
        "12.50",
        0,
        len(GOOD) - 1,
    )
    told = [row for row in rows if row.op != "tombstone"]
    assert {(tuple(row.position), micros(row)) for row in told} == {((24023128,), MS * 1000 + 7)}
    stones = [row for row in rows if row.op == "tombstone"]
    assert {(row.position, micros(row)) for row in stones} == {(None, MS * 1000)}


def test_by_the_log_the_offset_is_the_position_of_tombstones_too(
    spark: SparkSession, by_log: ChangeFormat
) -> None:
    rows = read(spark, by_log, [record for record, _, _ in GOOD])
    assert [row.position for row in rows] == [[offset] for offset in range(len(GOOD))]


SOURCES: list[tuple[dict[str, Any], list[int] | None]] = [
    ({"lsn": 7}, [7]),
    ({"file": "mysql-bin.000003", "pos": 154, "row": 2}, [3, 154, 2]),
    ({"file": "mysql-bin.1000003", "pos": 154}, [1000003, 154, 0]),
    (
        {
            "commit_lsn": "0000002A:00000758:0005",
            "change_lsn": "0000002A:00000758:0003",
            "event_serial_no": 2,
        },
        [42, 1880, 5, 42, 1880, 3, 2],
    ),
    ({"commit_lsn": "0000002A:00000758:0005", "change_lsn": None}, [42, 1880, 5, 0]),
    ({"scn": "2868546"}, [2868546]),
    ({"scn": "x"}, None),
    ({"file": "none", "pos": 154}, None),
    ({"commit_lsn": "0000002A:0000G758"}, None),
    ({"commit_lsn": "F" * 60}, None),
    ({}, None),
]


@pytest.mark.slow
def test_each_database_s_position_is_numbers_that_compare(
    spark: SparkSession, by_source: ChangeFormat
) -> None:
    records = [(KEY, event("c", None, ANN, {"ts_ms": MS, **source})) for source, _ in SOURCES]
    assert [row.position for row in read(spark, by_source, records)] == [
        position for _, position in SOURCES
    ]
    told = ["no position of the source" if position is None else None for _, position in SOURCES]
    assert reasons(spark, by_source, records) == told


TIMES: list[tuple[dict[str, Any], int | None]] = [
    ({"ts_ms": MS, "ts_us": MS * 1000 + 7}, MS * 1000 + 7),
    ({"ts_ms": MS}, MS * 1000),
    ({"ts_ms": 0}, (MS + 500) * 1000),
    ({}, (MS + 500) * 1000),
    ({"ts_ms": 9_000_000_000_000_000_000}, None),
]


def test_the_source_s_time_counts_before_the_connector_s(
    spark: SparkSession, by_source: ChangeFormat
) -> None:
    records = [(KEY, event("c", None, ANN, {"lsn": 1, **source})) for source, _ in TIMES[:4]]
    records.append(
        (KEY, event("c", None, ANN, {"lsn": 1, **TIMES[4][0]}, ts_ms=9_000_000_000_000_000_000))
    )
    rows = read(spark, by_source, records)
    assert [None if row.event_time is None else micros(row) for row in rows] == [
        expected for _, expected in TIMES
    ]


LARGE = "__debezium_unavailable_value"
BAD: list[tuple[Record, str]] = [
    ((None, None), "no key and no value"),
    ((b"not json", None), "tombstone whose key cannot be read"),
    (({"other": 1}, None), "no key: id"),
    (({"id": "x"}, None), "tombstone whose key cannot be read"),
    ((KEY, b""), "empty value"),
    ((KEY, b"\xff"), "invalid UTF-8"),
    ((KEY, b"[]"), "not a JSON object"),
    ((KEY, json.dumps(event("c", None, ANN))[:-9].encode()), "malformed JSON"),
    ((KEY, json.dumps(event("c", None, ANN)).encode() + b"{}"), "text after the JSON object"),
    ((KEY, event("c", None, {"id": "one", "name": "Ann"})), "wrong type: after"),
    ((KEY, event("c", None, {"id": 1})), "missing field: after.name"),
    ((KEY, with_schema(event("c", None, {"id": 1}))), "missing field: payload.after.name"),
    ((KEY, {}), "no kind of change"),
    ((KEY, {"schema": None, "payload": None}), "no kind of change"),
    ((KEY, event("m")), "no change of a row: m"),
    ((KEY, event("x")), "unknown kind of change: x"),
    ((KEY, event("C", None, ANN)), "unknown kind of change: C"),
    ((KEY, event("u", ANN)), "no row after the change"),
    ((b"?", event("d")), "no key: id"),
    ((KEY, event("c", None, {**ANN, "name": LARGE})), "value left out: name"),
    (
        (KEY, event("u", None, {**ANN, "photo": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="})),
        "value left out: photo",
    ),
]


@pytest.mark.slow
def test_what_is_no_change_has_the_documented_reason(
    spark: SparkSession, by_source: ChangeFormat, by_log: ChangeFormat
) -> None:
    records = [record for record, _ in BAD]
    assert reasons(spark, by_source, records) == [reason for _, reason in BAD]
    assert reasons(spark, by_log, records) == [reason for _, reason in BAD]


@pytest.mark.slow
def test_a_truncate_has_a_place_by_the_source_alone(
    spark: SparkSession, by_source: ChangeFormat, by_log: ChangeFormat
) -> None:
    records: list[Record] = [(None, event("t"))]
    [row] = read(spark, by_source, records)
    assert (row.bad, row.op, row.key, row.after, row.position) == (
        False,
        "truncate",
        None,
        None,
        [24023128],
    )
    assert reasons(spark, by_log, records) == [
        "truncate, whose offset tells nothing of other partitions"
    ]


def test_a_record_is_parsed_once_on_the_way_to_the_good_rows(
    spark: SparkSession, by_source: ChangeFormat
) -> None:
    source = KafkaSource(servers="nowhere:9092", topics=["t"])
    reading = Reading(source=source, format=by_source, time="event_time", lateness="0 seconds")
    judged = reading._rows.judged(raw(spark, [(KEY, event("c", None, ANN))]))
    good = reading._good(judged, "o")
    assert good.columns == ["op", "key", "before", "after", "position", "place", "event_time"]
    plan = good._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("columnNameOfCorruptRecord") == 2, "once for the value, once for the key"


def test_columns_that_can_not_be_kept_are_refused_at_the_call(spark: SparkSession) -> None:
    def form(columns: str, key: Any = "id", **others: Any) -> ChangeFormat:
        return debezium(columns, key=key, using=json_format, **others)

    with pytest.raises(ColumnError, match="key names nr"):
        form("id INT", "nr")
    with pytest.raises(ColumnError, match="no column"):
        form("id INT", [])
    with pytest.raises(ColumnError, match="'Payload', in which Debezium may wrap"):
        form("Payload INT", "Payload")
    assert form("id INT, payload STRING").schema.names[0] == "op"
    with pytest.raises(ColumnError, match="valid_from"):
        form("id INT, valid_from TIMESTAMP")
    with pytest.raises(ColumnTypeError, match="maps"):
        form("id INT, tags ARRAY<MAP<STRING, STRING>>")
    with pytest.raises(ArgumentError, match="position"):
        form("id INT", position="offset")
    assert form("id INT, `a.b` STRING", ["id", "a.b"]).schema["key"].dataType.names == ["id", "a.b"]  # type: ignore[attr-defined]


def test_events_are_json_where_nothing_else_is_said(by_log: ChangeFormat) -> None:
    assert debezium(COLUMNS, key="id") == by_log


def test_names_with_dots_and_keys_of_two_columns_are_read(spark: SparkSession) -> None:
    form = debezium("`a.b` INT, id STRING, n INT", key=["id", "a.b"], using=json_format)
    key = {"id": "x", "a.b": 2}
    rows = read(spark, form, [(key, event("c", None, {**key, "n": 3})), (key, None)])
    assert [tuple(row.key) for row in rows] == [("x", 2), ("x", 2)]
    assert rows[0].after.asDict() == {"a.b": 2, "id": "x", "n": 3}


@pytest.mark.slow
def test_a_stream_of_records_is_decoded_as_a_batch_of_them_is(
    spark: SparkSession, by_source: ChangeFormat
) -> None:
    def decoded(records: DataFrame) -> DataFrame:
        return by_source.decode(records).select("record.*", "bad")

    given = raw(spark, [*[record for record, _, _ in GOOD], *[record for record, _ in BAD[:8]]])
    with StreamDriver(spark, given.schema, decoded, lateness=None) as stream:
        stream.feed(given.where("offset % 2 = 0"))
        stream.restart()
        stream.feed(given.where("offset % 2 = 1"))
        assert_df_equality(
            stream.results(), decoded(given), ignore_row_order=True, ignore_nullable=True
        )
