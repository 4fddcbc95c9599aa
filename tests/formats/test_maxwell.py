"""Maxwell's records as changes, or with the reason why they are none."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.formats import json_format, maxwell

from ..changes.frames import Record, raw

COLUMNS = "id BIGINT NOT NULL, m DOUBLE, note STRING"
ROW = {"id": 1, "m": 4.5, "note": "a"}
KEY = {"database": "test", "table": "e", "pk.id": 1}


def event(kind: Any, data: Any, old: Any = None, **more: Any) -> dict[str, Any]:
    told = {
        "database": "test",
        "table": "e",
        "type": kind,
        "ts": 1477053217,
        "xid": 23396,
        "data": data,
    }
    return told | ({} if old is None else {"old": old}) | more


def place(pos: int, xoffset: int = 0) -> dict[str, Any]:
    return {"position": f"master.000006:{pos}", "xoffset": xoffset}


GOOD: list[tuple[Record, tuple[str, Any, Any, Any]]] = [
    ((KEY, event("insert", ROW, **place(8))), ("create", None, ROW, [6, 8, 0])),
    ((KEY, event("bootstrap-insert", ROW, **place(8))), ("snapshot", None, ROW, [6, 8, 0])),
    (
        (KEY, event("update", ROW, {"m": 1.0, "note": None}, **place(9, 3))),
        ("update", {"id": 1, "m": 1.0, "note": None}, ROW, [6, 9, 3]),
    ),
    (
        (KEY, event("update", ROW, {"id": 7}, **place(9))),
        ("update", {**ROW, "id": 7}, ROW, [6, 9, 0]),
    ),
    (
        (KEY, event("update", ROW, {"m": "x"}, **place(9))),
        ("update", {**ROW, "m": None}, ROW, [6, 9, 0]),
    ),
    ((KEY, event("delete", ROW, **place(10))), ("delete", ROW, None, [6, 10, 0])),
    ((KEY, None), ("tombstone", None, None, None)),
]
BAD: list[tuple[Record, str]] = [
    ((KEY, event("bootstrap-start", {}, **place(1))), "missing field: data.id"),
    ((KEY, {"type": "bootstrap-complete", "ts": 1}), "no change of a row: bootstrap-complete"),
    (
        (KEY, {"type": "table-alter", "ts": 1, "old": {}, "def": {}}),
        "no change of a row: table-alter",
    ),
    ((KEY, event("upsert", ROW, **place(1))), "unknown kind of change: upsert"),
    ((KEY, event("update", None, **place(1))), "no row after the change"),
    ((KEY, event("insert", ROW)), "no position of the source"),
    ((KEY, event("insert", ROW, position="master:x")), "no position of the source"),
    ((b"[]", None), "tombstone whose key cannot be read"),
    ((KEY, b"{"), "malformed JSON"),
]


def test_maxwell_s_records_are_changes_of_the_same_shape(spark: SparkSession) -> None:
    form = maxwell(COLUMNS, key="id", using=json_format, position="source")
    records = [record for record, _ in GOOD]
    rows = form.decode(raw(spark, records)).orderBy("offset").select("record.*", "bad").collect()
    found = [
        (r.op, r.before and r.before.asDict(), r.after and r.after.asDict(), r.position)
        for r in rows
    ]
    assert found == [expected for _, expected in GOOD]
    assert [row.bad for row in rows] == [False] * len(GOOD)
    assert {row.key.id for row in rows} == {1}
    assert {row.event_time.timestamp() for row in rows[:-1]} == {1477053217}


@pytest.mark.slow
def test_maxwell_s_other_records_have_their_reasons(spark: SparkSession) -> None:
    form = maxwell(COLUMNS, key="id", using=json_format, position="source")
    decoded = form.decode(raw(spark, [record for record, _ in BAD]))
    told = form.diagnose(decoded.where("bad")).orderBy("offset").select("reason").collect()
    assert [row.reason for row in told] == [reason for _, reason in BAD]
