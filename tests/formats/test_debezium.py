"""Debezium records become changes or dead letters with a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from tests.support.changelog_frames import START, Record, raw
from tidegate import Job
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.formats import debezium_format, json_format
from tidegate.formats._change_envelope import ChangeFormat
from tidegate.job.fingerprint import job_fingerprint
from tidegate.sinks import Append, CurrentTable, FanOut, HistoryTable
from tidegate.sources import Input, KafkaSource
from tidegate.testing import StreamDriver
from tidegate.transform import Stateless

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
def customers(spark: SparkSession) -> ChangeFormat:
    return debezium_format(COLUMNS, key="id")


def event(
    op: Any, before: Any = None, after: Any = None, source: Any = POSTGRES, **more: Any
) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": MS + 500, **more}


def with_schema(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": {"type": "struct", "optional": False, "fields": [{"field": "op"}]},
        "payload": value,
    }


def read(spark: SparkSession, change_format: ChangeFormat, records: list[Record]) -> list[Row]:
    decoded = change_format.decode(raw(spark, records))
    return decoded.orderBy("offset").select("record.*", "bad").collect()


def reasons(
    spark: SparkSession, change_format: ChangeFormat, records: list[Record]
) -> list[str | None]:
    decoded = change_format.decode(raw(spark, records))
    letters = (
        change_format.explain_failures(decoded.where("bad")).select("offset", "reason").collect()
    )
    by_offset = {row.offset: row.reason for row in letters}
    assert None not in by_offset.values()
    return [by_offset.get(offset) for offset in range(len(records))]


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


def test_a_json_null_is_a_tombstone(spark: SparkSession, customers: ChangeFormat) -> None:
    payload = b'{"schema":{"type":"struct"},"payload":null}'
    rows = read(spark, customers, [(KEY, b"null"), (with_schema(KEY), payload)])
    assert [(row.bad, row.op, row.key.id) for row in rows] == [(False, "tombstone", 1)] * 2
    assert reasons(spark, customers, [(None, b"null")]) == ["no key and no value"]


def test_events_with_and_without_a_schema_part_become_the_same_changes(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    rows = read(spark, customers, [record for record, _, _ in GOOD])
    names = [(row.before and row.before.name, row.after and row.after.name) for row in rows]
    assert [row.bad for row in rows] == [False] * len(GOOD)
    assert [(row.op, pair) for row, pair in zip(rows, names, strict=True)] == [
        (op, pair) for _, op, pair in GOOD
    ]
    assert {row.key.id for row in rows} == {1}
    assert rows[1].after.asDict() == {"id": 1, "name": "Bob", "credit": None, "photo": b"\xff\x00"}
    assert (str(rows[0].after.credit), rows[0].position.offset, rows[-1].position.offset) == (
        "12.50",
        0,
        len(GOOD) - 1,
    )
    assert [tuple(row.position)[:4] for row in rows] == [
        ("t", 0, offset, START.replace(tzinfo=None)) for offset in range(len(GOOD))
    ]
    streamed = [row for row in rows if row.op not in ("tombstone", "snapshot")]
    assert {(tuple(row.position.source), micros(row)) for row in streamed} == {
        ((24023128,), MS * 1000 + 7)
    }
    # A snapshot row and a tombstone have no position in the log of the database.
    others = [row for row in rows if row.op in ("tombstone", "snapshot")]
    assert {row.position.source for row in others} == {None}
    assert {micros(row) for row in others if row.op == "tombstone"} == {MS * 1000}


def test_a_position_is_in_the_log_of_a_server_and_snapshot_rows_have_none(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    uuid = "3E11FA47-71CA-11E1-9E33-C80AA9429562"
    sources = [
        {"name": "shop", "lsn": 7},
        {"name": "shop", "file": "b.000001", "pos": 4, "server_id": 5, "gtid": f"{uuid}:23"},
        {"name": "shop", "file": "b.000001", "pos": 4, "server_id": 5, "gtid": "0-1-270"},
        {"name": "shop", "lsn": 7, "snapshot": "incremental"},
        {"name": "shop", "lsn": 7, "snapshot": "last"},
    ]
    records = [(KEY, event("u", None, ANN, {"ts_ms": MS, **source})) for source in sources]
    found = [(row.position.server, row.position.source) for row in read(spark, customers, records)]
    assert found == [
        ("shop", [7]),
        (f"shop/5/{uuid}", [1, 4, 0]),
        ("shop/5/0-1", [1, 4, 0]),
        (None, None),
        (None, None),
    ]


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
    ({"scn": "2868546", "rs_id": " 0x000124.00000f8a.0010 "}, [2868546, 292, 3978, 16, 0]),
    ({"scn": "2868546", "rs_id": "0x000124.00000f8a.0010", "ssn": 3}, [2868546, 292, 3978, 16, 3]),
    ({"scn": "2868546", "ssn": 3}, None),
    ({"scn": "x", "rs_id": "0x000124.00000f8a.0010"}, None),
    ({"file": "none", "pos": 154}, None),
    ({"commit_lsn": "0000002A:0000G758"}, None),
    ({"commit_lsn": "F" * 60}, None),
    ({}, None),
]


@pytest.mark.slow
def test_source_positions_of_all_databases_are_comparable_numbers(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    records = [(KEY, event("c", None, ANN, {"ts_ms": MS, **source})) for source, _ in SOURCES]
    assert [row.position.source for row in read(spark, customers, records)] == [
        position for _, position in SOURCES
    ]


TIMES: list[tuple[dict[str, Any], int | None]] = [
    ({"ts_ms": MS, "ts_us": MS * 1000 + 7}, MS * 1000 + 7),
    ({"ts_ms": MS}, MS * 1000),
    ({"ts_ms": 0}, (MS + 500) * 1000),
    ({}, (MS + 500) * 1000),
    ({"ts_ms": 9_000_000_000_000_000_000}, None),
]


def test_the_time_of_the_source_precedes_that_of_the_connector(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    records = [(KEY, event("c", None, ANN, {"lsn": 1, **source})) for source, _ in TIMES[:4]]
    records.append(
        (KEY, event("c", None, ANN, {"lsn": 1, **TIMES[4][0]}, ts_ms=9_000_000_000_000_000_000))
    )
    rows = read(spark, customers, records)
    assert [None if row.event_time is None else micros(row) for row in rows] == [
        expected for _, expected in TIMES
    ]


LARGE = "__debezium_unavailable_value"
BAD: list[tuple[Record, str]] = [
    ((None, None), "no key and no value"),
    ((b"not json", None), "tombstone with an unreadable key"),
    (({"other": 1}, None), "missing key: id"),
    (({"id": "x"}, None), "tombstone with an unreadable key"),
    ((KEY, b""), "empty value"),
    ((KEY, b"\xff"), "invalid UTF-8"),
    ((KEY, b"[]"), "not a JSON object"),
    ((KEY, json.dumps(event("c", None, ANN))[:-9].encode()), "malformed JSON"),
    ((KEY, json.dumps(event("c", None, ANN)).encode() + b"{}"), "text after the JSON object"),
    ((KEY, event("c", None, {"id": "one", "name": "Ann"})), "wrong type: after.id"),
    ((KEY, event("c", None, {"id": 1})), "missing field: after.name"),
    ((KEY, with_schema(event("c", None, {"id": 1}))), "missing field: after.name"),
    ((KEY, {}), "missing operation"),
    ((KEY, {"schema": None, "payload": None}), "not a JSON object"),
    ((KEY, event("x")), "unknown operation: x"),
    ((KEY, event("C", None, ANN)), "unknown operation: C"),
    ((KEY, event("u", ANN)), "missing row after the change"),
    ((b"?", event("d")), "missing key: id"),
    ((KEY, event("c", None, {**ANN, "name": LARGE})), "unavailable value: name"),
    (
        (KEY, event("u", None, {**ANN, "photo": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="})),
        "unavailable value: photo",
    ),
]


@pytest.mark.slow
def test_invalid_records_have_the_documented_reasons(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    records = [record for record, _ in BAD]
    assert reasons(spark, customers, records) == [reason for _, reason in BAD]


NO_ROW: list[Record] = [
    (KEY, event("m", message={"prefix": "p", "content": "AA=="})),
    ({"serverName": "shop"}, {"ts_ms": MS}),
    ({"id": "571"}, {"status": "BEGIN", "id": "571", "event_count": None, "ts_ms": MS}),
    ({"id": "571"}, {"status": "END", "id": "571", "event_count": 2, "ts_ms": MS}),
    (None, {"source": POSTGRES, "ts_ms": MS, "databaseName": "d", "ddl": "ALTER TABLE t"}),
    (KEY, with_schema(event("m"))),
]


def test_records_that_are_not_of_a_row_are_skipped_and_counted(
    spark: SparkSession, customers: ChangeFormat
) -> None:
    records = raw(spark, [*NO_ROW, (KEY, {}), (KEY, event("c", None, ANN)), (KEY, None)])
    for change_format in (customers,):
        flags = change_format.decode(records).orderBy("offset").select("bad", "skipped").collect()
        assert [tuple(row) for row in flags[: len(NO_ROW)]] == [(True, True)] * len(NO_ROW)
        assert [tuple(row) for row in flags[len(NO_ROW) :]] == [
            (True, False),
            (False, False),
            (False, False),
        ]
        source = KafkaSource(bootstrap_servers="nowhere:9092", topics=["t"])
        for on_error in ("dead_letter", "drop", "stop"):
            changes = Input(
                source,
                change_format,
                time="event_time",
                watermark_delay="0 seconds",
                on_error=on_error,
            )
            decoded = changes._decode(records)
            metrics = changes._batch_metrics(decoded.columns)
            counts = decoded.agg(*metrics).collect()[0].asDict()
            stopping = counts.get("stopping", 0)
            found = (counts["rows"], counts["dead_letters"], counts["discarded"], stopping)
            # One of the others is a dead letter: the record without an operation.
            skipped = len(NO_ROW)
            assert (
                found
                == {
                    "dead_letter": (skipped + 3, 1, skipped, 0),
                    "drop": (skipped + 3, 0, skipped + 1, 0),
                    "stop": (skipped + 3, 1, skipped, 1),
                }[on_error]
            )


def test_a_job_passes_unavailable_values_to_a_sink_that_has_the_row_before(
    spark: SparkSession,
) -> None:
    columns = (
        "id INT NOT NULL, name STRING NOT NULL, `a.b` STRING, a STRING, tags ARRAY<INT>,"
        " place STRUCT<x: STRING>"
    )
    changes = replace(
        debezium_format(columns, key="id", rename={"a.b": "dotted"}), passes_unavailable=True
    )
    row = {"id": 1, "name": "Ann", "a.b": "c", "a": "d", "tags": [7], "place": {"x": "y"}}
    unsent_list = [*LARGE.encode()]
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"name": LARGE}, ["name"]),
        ({"name": LARGE, "a.b": LARGE}, ["name", "dotted"]),
        ({"a": LARGE}, ["a"]),
        ({"tags": unsent_list, "place": {"x": LARGE}}, ["tags", "place"]),
        ({"a": "unsent"}, []),
    ]
    records: list[Record] = [(KEY, event("u", None, row | changed)) for changed, _ in cases]
    for found, (changed, names) in zip(read(spark, changes, records), cases, strict=True):
        assert not found.bad
        assert (found.unavailable or []) == names
        renamed = {"a.b": "dotted"}
        nulls = [name for name, value in found.after.asDict().items() if value is None]
        assert nulls == [renamed.get(name, name) for name in row if name in changed and names]
    flawed: list[Record] = [
        (KEY, event("u", None, row | {"name": None})),
        (KEY, event("u", None, row | {"name": LARGE, "tags": 5})),
    ]
    assert reasons(spark, changes, flawed) == [
        "missing field: after.name",
        "wrong type: after.tags",
    ]
    by_name = replace(debezium_format(columns, key="name"), passes_unavailable=True)
    assert reasons(spark, by_name, records[:2]) == ["missing key: name"] * 2


def test_a_job_passes_unavailable_values_only_to_sinks_that_fill_them(tmp_path: Path) -> None:
    changes = Input(
        KafkaSource("nowhere:9092", "t"),
        debezium_format(COLUMNS, key="id"),
        time="event_time",
        watermark_delay="0 seconds",
    )
    current, history = CurrentTable(str(tmp_path / "c")), HistoryTable(str(tmp_path / "h"))
    archive = Append(str(tmp_path / "a"))
    jobs: list[tuple[dict[str, Any], bool]] = [
        ({"sink": current}, True),
        ({"sink": FanOut(current, other_sinks=[history])}, True),
        ({"sink": FanOut(current, other_sinks=[archive])}, False),
        ({"sink": archive}, False),
        ({"sink": current, "each_batch": lambda rows: rows}, False),
        ({"sink": current, "transform": Stateless(lambda rows: rows)}, False),
    ]
    for parts, passes in jobs:
        job = Job(name="changes", inputs={"changes": changes}, **parts)
        assert job.inputs["changes"].format.passes_unavailable == passes, parts  # type: ignore[attr-defined]
        assert job_fingerprint(job)["inputs"].count("passes") == 0


def test_a_truncate_is_a_change_without_a_key(spark: SparkSession, customers: ChangeFormat) -> None:
    [row] = read(spark, customers, [(None, event("t"))])
    assert (row.bad, row.op, row.key, row.after) == (False, "truncate", None, None)
    assert (row.position.offset, row.position.source) == (0, [24023128])


def test_a_record_is_parsed_once_in_the_plan(spark: SparkSession, customers: ChangeFormat) -> None:
    source = KafkaSource(bootstrap_servers="nowhere:9092", topics=["t"])
    kafka_input = Input(
        source=source, format=customers, time="event_time", watermark_delay="0 seconds"
    )
    decoded = kafka_input._decode(raw(spark, [(KEY, event("c", None, ANN))]))
    good = kafka_input._good_rows(decoded, "o")
    assert good.columns == ["op", "key", "before", "after", "unavailable", "position", "event_time"]
    plan = good._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1, "the value and the key together"


def test_invalid_columns_and_keys_are_rejected(spark: SparkSession) -> None:
    def build(columns: str, key: Any = "id", **others: Any) -> ChangeFormat:
        return debezium_format(columns, key=key, **others)

    with pytest.raises(ColumnError, match="invalid key: 'nr'"):
        build("id INT", "nr")
    with pytest.raises(ColumnError, match=r"invalid key: \[\]"):
        build("id INT", [])
    assert build("payload INT", "payload").schema.names[0] == "op"
    with pytest.raises(ArgumentError, match="invalid decimals: 'base64'"):
        build("id INT", decimals="base64")
    with pytest.raises(ArgumentError, match="invalid timestamps: 'ms'"):
        build("id INT", timestamps="ms")
    with pytest.raises(ArgumentError, match="invalid decimals and timestamps"):
        build("id INT", decimals="string", value_format=json_format)
    with pytest.raises(ArgumentError, match="invalid unavailable_value: ''"):
        build("id INT", unavailable_value="")
    with pytest.raises(ColumnError, match="valid_from"):
        build("id INT, valid_from TIMESTAMP")
    with pytest.raises(ColumnTypeError, match="invalid type of column 'tags': map"):
        build("id INT, tags ARRAY<MAP<STRING, STRING>>")
    key_type = build("id INT, `a.b` STRING", ["id", "a.b"]).schema["key"].dataType
    assert isinstance(key_type, StructType)
    assert key_type.names == ["id", "a.b"]


def test_the_default_value_format_is_json(customers: ChangeFormat) -> None:
    assert debezium_format(COLUMNS, key="id") == customers


def test_column_names_with_dots_and_composite_keys_are_read(spark: SparkSession) -> None:
    change_format = debezium_format("`a.b` INT, id STRING, n INT", key=["id", "a.b"])
    key = {"id": "x", "a.b": 2}
    rows = read(spark, change_format, [(key, event("c", None, {**key, "n": 3})), (key, None)])
    assert [tuple(row.key) for row in rows] == [("x", 2), ("x", 2)]
    assert rows[0].after.asDict() == {"a.b": 2, "id": "x", "n": 3}


@pytest.mark.slow
def test_a_stream_is_decoded_like_a_batch(spark: SparkSession, customers: ChangeFormat) -> None:
    def decoded(records: DataFrame) -> DataFrame:
        return customers.decode(records).select("record.*", "bad")

    records = raw(spark, [*[record for record, _, _ in GOOD], *[record for record, _ in BAD[:8]]])
    with StreamDriver(spark, records.schema, decoded, watermark_delay=None) as stream:
        stream.feed(records.where("offset % 2 = 0"))
        stream.restart()
        stream.feed(records.where("offset % 2 = 1"))
        assert_df_equality(
            stream.results(), decoded(records), ignore_row_order=True, ignore_nullable=True
        )


FLAT: list[tuple[Record, str, str | None, int]] = [
    ((KEY, ANN), "update", "Ann", MS * 1000),
    ((KEY, {**ANN, "__op": "c", "__source_ts_ms": MS + 1}), "create", "Ann", (MS + 1) * 1000),
    ((KEY, {**BOB, "__deleted": "false", "__ts_ms": MS + 2}), "update", "Bob", (MS + 2) * 1000),
    ((KEY, {"id": 1, "name": None, "__deleted": "true"}), "delete", None, MS * 1000),
    ((KEY, {"id": 1, "__op": "d", "__deleted": "true"}), "delete", None, MS * 1000),
    ((KEY, None), "tombstone", None, MS * 1000),
]


def test_flattened_rows_are_changes_and_their_deletes_delete(spark: SparkSession) -> None:
    flat = debezium_format(COLUMNS, key="id", shape="flattened")
    rows = read(spark, flat, [record for record, *_ in FLAT])
    found = [(row.op, row.after and row.after.name, micros(row)) for row in rows]
    assert found == [tuple(expected) for _, *expected in FLAT]
    assert [row.bad for row in rows] == [False] * len(FLAT)
    assert {row.key.id for row in rows} == {1}


def test_flattened_rows_have_positions_and_the_documented_reasons(spark: SparkSession) -> None:
    flat = debezium_format(COLUMNS, key="id", shape="flattened")
    records: list[Record] = [
        (KEY, {**ANN, "__lsn": 7}),
        (KEY, {**ANN, "__source_lsn": 8}),
        (KEY, ANN),
        (KEY, {"id": 1, "__lsn": 7}),
        (KEY, {**ANN, "name": LARGE, "__lsn": 7}),
        (KEY, {"name": "Ann", "__lsn": 7}),
    ]
    positions = [row.position.source for row in read(spark, flat, records)[:3]]
    assert positions == [[7], [8], None]
    assert reasons(spark, flat, records) == [
        None,
        None,
        None,
        "missing field: name",
        "unavailable value: name",
        "missing key: id",
    ]
    with pytest.raises(ColumnError, match="invalid column: '__op'"):
        debezium_format("id INT, __op STRING", key="id", shape="flattened")
    with pytest.raises(ArgumentError, match="invalid shape: 'flat'"):
        debezium_format("id INT", key="id", shape="flat")  # type: ignore[arg-type]
