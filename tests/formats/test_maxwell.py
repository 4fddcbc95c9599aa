"""Maxwell records become changes or dead letters with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.changelog_frames import Record, raw
from tidegate.formats import json_format, maxwell_format

COLUMNS = "id BIGINT NOT NULL, m DOUBLE, note STRING"
ROW = {"id": 1, "m": 4.5, "note": "a"}
KEY = {"database": "test", "table": "e", "pk.id": 1}


def event(change_type: Any, data: Any, old: Any = None, **more: Any) -> dict[str, Any]:
    fields = {
        "database": "test",
        "table": "e",
        "type": change_type,
        "ts": 1477053217,
        "xid": 23396,
        "data": data,
    }
    return fields | ({} if old is None else {"old": old}) | more


def log_position(pos: int, xoffset: int = 0) -> dict[str, Any]:
    return {"position": f"master.000006:{pos}", "xoffset": xoffset}


GOOD: list[tuple[Record, tuple[str, Any, Any, Any]]] = [
    ((KEY, event("insert", ROW, **log_position(8))), ("create", None, ROW, [6, 8, 0])),
    ((KEY, event("bootstrap-insert", ROW, **log_position(8))), ("snapshot", None, ROW, None)),
    (
        (KEY, event("update", ROW, {"m": 1.0, "note": None}, **log_position(9, 3))),
        ("update", {"id": 1, "m": 1.0, "note": None}, ROW, [6, 9, 3]),
    ),
    (
        (KEY, event("update", ROW, {"id": 7}, **log_position(9))),
        ("update", {**ROW, "id": 7}, ROW, [6, 9, 0]),
    ),
    (
        (KEY, event("update", ROW, {"m": "x"}, **log_position(9))),
        ("update", {**ROW, "m": None}, ROW, [6, 9, 0]),
    ),
    ((KEY, event("delete", ROW, **log_position(10))), ("delete", ROW, None, [6, 10, 0])),
    ((KEY, event("update", ROW, {})), ("update", ROW, ROW, None)),
    ((KEY, event("update", ROW, {}, position="master:x")), ("update", ROW, ROW, None)),
    ((KEY, None), ("tombstone", None, None, None)),
]
BAD: list[tuple[Record, str]] = [
    ((KEY, event("insert", {}, **log_position(1))), "missing key: id"),
    ((KEY, event("upsert", ROW, **log_position(1))), "unknown operation: upsert"),
    ((KEY, event("update", None, **log_position(1))), "missing row after the change"),
    ((b"[]", None), "tombstone with an unreadable key"),
    ((KEY, b"{"), "malformed JSON"),
]


NO_ROW: list[Record] = [
    (KEY, event("bootstrap-start", {}, **log_position(1))),
    (KEY, {"type": "bootstrap-complete", "ts": 1}),
    (KEY, {"type": "table-alter", "ts": 1, "old": {}, "def": {}}),
]


def test_records_that_are_not_of_a_row_are_skipped(spark: SparkSession) -> None:
    change_format = maxwell_format(COLUMNS, key="id")
    flags = change_format.decode(raw(spark, NO_ROW)).select("bad", "skipped").collect()
    assert [tuple(row) for row in flags] == [(True, True)] * len(NO_ROW)


def test_records_become_changes_of_the_common_schema(spark: SparkSession) -> None:
    change_format = maxwell_format(COLUMNS, key="id", value_format=json_format)
    records = [record for record, _ in GOOD]
    rows = (
        change_format.decode(raw(spark, records))
        .orderBy("offset")
        .select("record.*", "bad")
        .collect()
    )
    changes = [
        (r.op, r.before and r.before.asDict(), r.after and r.after.asDict(), r.position.source)
        for r in rows
    ]
    assert changes == [expected for _, expected in GOOD]
    assert [row.bad for row in rows] == [False] * len(GOOD)
    assert {row.key.id for row in rows} == {1}
    assert {row.event_time.timestamp() for row in rows[:-1]} == {1477053217}


def test_a_position_is_in_the_log_of_a_server(spark: SparkSession) -> None:
    uuid = "3E11FA47-71CA-11E1-9E33-C80AA9429562"
    more: list[dict[str, Any]] = [{}, {"server_id": 23}, {"server_id": 23, "gtid": f"{uuid}:9"}]
    records = [(KEY, event("insert", ROW, **log_position(8), **each)) for each in more]
    decoded = maxwell_format(COLUMNS, key="id").decode(raw(spark, records))
    rows = decoded.orderBy("offset").select("record.position.server").collect()
    assert [row.server for row in rows] == [None, "23", f"23/{uuid}"]


@pytest.mark.slow
def test_invalid_records_have_the_documented_reasons(spark: SparkSession) -> None:
    change_format = maxwell_format(COLUMNS, key="id", value_format=json_format)
    decoded = change_format.decode(raw(spark, [record for record, _ in BAD]))
    reasons = (
        change_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in reasons] == [reason for _, reason in BAD]


def test_values_are_read_exactly_or_are_dead_letters_that_name_their_column(
    spark: SparkSession,
) -> None:
    columns = "id INT, price DECIMAL(6, 2), day DATE, at TIMESTAMP, photo BINARY, note STRING"
    change_format = maxwell_format(columns, key="id")
    row: dict[str, Any] = {"id": 1, "day": "2026-03-02", "at": "2026-03-02 09:00:00.5"}
    records = [
        (KEY, event("insert", {**row, "photo": "/wA=", "note": {"a": [1]}})),
        (KEY, b'{"type":"insert","ts":1,"data":{"id":1,"price":7.90}}'),
        (KEY, event("insert", {**row, "price": 7.905})),
        (KEY, event("insert", {**row, "price": "NaN"})),
        (KEY, event("insert", {**row, "day": "0000-00-00", "at": "0000-00-00 00:00:00"})),
        (KEY, event("insert", [1])),
    ]
    decoded = change_format.decode(raw(spark, records)).orderBy("offset")
    good = decoded.where("not bad").select("record.after.*").collect()
    assert [
        (str(each.price), str(each.day), str(each.at), each.photo, each.note) for each in good
    ] == [
        ("None", "2026-03-02", "2026-03-02 09:00:00.500000", b"\xff\x00", '{"a":[1]}'),
        ("7.90", "None", "None", None, None),
    ]
    dead = change_format.explain_failures(decoded.where("bad")).orderBy("offset").collect()
    assert [each.reason for each in dead] == [
        "wrong type: data.price",
        "wrong type: data.price",
        "wrong type: data.day, data.at",
        "wrong type: data",
    ]
