"""Avro values as typed rows, or with the reason why they are none."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.formats import avro_format
from tidegate.formats.avro._reader import AvroReader

from ..sources.raw import raw


def record(name: str = "Click", **fields: Any) -> str:
    """Return a schema; the type of a field, or all that is said of it."""
    told = [
        {"name": key, **(kind if isinstance(kind, dict) and "of" in kind else {"of": kind})}
        for key, kind in fields.items()
    ]
    for field in told:
        field["type"] = field.pop("of")
    return json.dumps({"type": "record", "name": name, "fields": told})


def written(schema: str, *records: Mapping[str, Any]) -> list[bytes]:
    found = []
    for each in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), each)
        found.append(out.getvalue())
    return found


def read(values: Sequence[bytes | None], schema: Any, **how: Any) -> list[Any]:
    """Return each record as a tuple, or the reason why there is none."""
    form = avro_format(schema, **how)
    reader = AvroReader(form.reader, form.writer, form.registry)
    records, reasons = reader.read(pa.array(values, pa.binary()))
    records.validate(full=True)
    return [
        why or tuple(one.values())
        for one, why in zip(records.to_pylist(), reasons.to_pylist(), strict=True)
    ]


def under(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


CLICK = record(
    page="string",
    ms=["null", "long"],
    at={"type": "long", "logicalType": "timestamp-millis"},
    kind={"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]},
)
GOOD = written(
    CLICK,
    {"page": "/a", "ms": 7, "at": 1_714_564_800_123, "kind": "BUY"},
    {"page": "é", "ms": None, "at": -1, "kind": "VIEW"},
)
BAD: list[tuple[bytes | None, str]] = [
    (None, "null value"),
    (b"", "empty value"),
    (GOOD[0][:-1], "truncated record"),
    (GOOD[0][:2], "truncated record"),
    (b"\xff", "truncated record"),
    (b"\x80" * 9 + b"\x02", "malformed record"),
    (b"\xff" * 20, "malformed record"),
    (b"\x01", "malformed record"),
    (GOOD[0] + b"\0", "bytes after the record"),
    (GOOD[0] * 2, "bytes after the record"),
    (b"\x02\xff\x00\x00\x00", "invalid UTF-8: page"),
    (b"\x00\x04\x00\x00", "malformed record"),
    (b"\x00\x00\x00\x04", "malformed record"),
    (b"\x00\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00", "wrong type: at"),
]


@pytest.mark.slow
def test_each_value_is_a_record_or_has_the_documented_reason(spark: SparkSession) -> None:
    form = avro_format(CLICK)
    values = [*GOOD, *[value for value, _ in BAD]]
    decoded = form.decode(raw(spark, values))
    assert decoded.schema["record"].dataType.simpleString() == form.schema.simpleString()
    at = F.unix_millis("record.at").alias("at")
    rows = decoded.orderBy("offset").select("record.page", "record.ms", at, "record.kind", "bad")
    found = rows.collect()
    assert [tuple(row) for row in found[: len(GOOD)]] == [
        ("/a", 7, 1_714_564_800_123, "BUY", False),
        ("é", None, -1, "VIEW", False),
    ]
    assert [row.bad for row in found] == [False] * len(GOOD) + [True] * len(BAD)
    reasons = form.diagnose(decoded.where("bad")).orderBy("offset").select("reason").collect()
    assert [row.reason for row in reasons] == [reason for _, reason in BAD]


def test_a_tombstone_can_be_a_row(spark: SparkSession) -> None:
    decoded = avro_format(CLICK, tombstones="row").decode(raw(spark, [None, b""]))
    rows = decoded.orderBy("offset").select("bad", "record.page").collect()
    assert [tuple(row) for row in rows] == [(False, None), (True, None)]


def test_the_header_names_the_schema_that_wrote_a_value() -> None:
    older = record(page="string")
    newer = record(ms="int", page="string", more={"type": "array", "items": ["null", "string"]})
    other = record("Order", page="string")
    reader = record(page="string", ms={"of": ["null", "long"], "default": None})
    values = [
        under(1, written(older, {"page": "/a"})[0]),
        under(2, written(newer, {"page": "/b", "ms": 7, "more": ["x", None]})[0]),
        under(1, written(older, {"page": "/c"})[0]),
        under(3, written(other, {"page": "/d"})[0]),
        under(4, b"{}"),
        under(77, b""),
        b"\x01\0\0\0\x01\x00",
        b"\0\0\0\0",
        b"",
        under(2, written(newer, {"page": "/e", "ms": 7, "more": ["x"]})[0][:-2]),
        under(1, b"\x00\x00"),
        None,
    ]
    assert read(values, reader, registry={1: older, 2: newer, 3: other, 4: '"bytes"'}) == [
        ("/a", None),
        ("/b", 7),
        ("/c", None),
        "schema 3 does not fit: it is of the record Order, and not of Click",
        "schema 4 does not fit: it is bytes, and no record",
        "unknown schema id: 77",
        "wrong magic byte",
        "no schema header",
        "empty value",
        "truncated record",
        "bytes after the record",
        "null value",
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.array([], pa.binary()), []),
        (pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")]), []),
        (pa.nulls(2, pa.binary()), ["null value", "null value"]),
        (pa.array([b"\xff", None, *GOOD], pa.binary()).slice(1, 2), ["null value", None]),
        (pa.array([None, GOOD[0]], pa.large_binary()), ["null value", None]),
    ],
    ids=["nothing", "no offsets", "nulls", "a part", "large"],
)
def test_a_batch_of_any_shape_is_read(given: pa.Array, expected: list[str | None]) -> None:
    form = avro_format(CLICK)
    records, reasons = AvroReader(form.reader, form.writer, None).read(given)
    assert reasons.to_pylist() == expected
    assert len(records) == len(expected)


ANY_LONG = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
NARROW = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
OLD_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B", "C"]}
NEW_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B", "other"], "default": "other"}
STRICT_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B"]}

RESOLVED: list[tuple[str, Any, Any, Any, Any]] = [
    ("int as long", "int", "long", -5, -5),
    ("int as double", "int", "double", 3, 3.0),
    ("long as float", "long", "float", 3, 3.0),
    ("float as double", "float", "double", 1.5, 1.5),
    ("text as bytes", "string", "bytes", "é", "é".encode()),
    ("bytes as text", "bytes", "string", "é".encode(), "é"),
    ("bytes as text", "bytes", "string", b"\xff", "invalid UTF-8: x"),
    ("no null as null", "int", ["null", "long"], 5, 5),
    ("null as none", ["null", "int"], "int", None, "missing field: x"),
    ("value of a union", ["null", "int", "string"], ["null", "long"], 5, 5),
    ("other of a union", ["null", "int", "string"], ["null", "long"], "a", "wrong type: x"),
    ("symbol", OLD_KIND, NEW_KIND, "B", "B"),
    ("symbol by default", OLD_KIND, NEW_KIND, "C", "other"),
    ("symbol without default", OLD_KIND, STRICT_KIND, "C", "wrong type: x"),
    ("decimal", NARROW, WIDE, Decimal("-1.25"), Decimal("-1.25")),
    ("int or long", ["int", "long"], ["int", "long"], 2**40, 2**40),
]


@pytest.mark.parametrize(
    ("wrote", "reads", "value", "expected"),
    [case[1:] for case in RESOLVED],
    ids=[case[0] for case in RESOLVED],
)
def test_a_value_is_read_as_the_reader_has_it(
    wrote: Any, reads: Any, value: Any, expected: Any
) -> None:
    values = written(record(x=wrote), {"x": value})
    found = read(values, record(x=reads), writer=record(x=wrote))
    assert found == [expected if isinstance(expected, str) and ":" in expected else (expected,)]


@pytest.mark.usefixtures("spark")
def test_times_of_other_units_are_the_same_instants() -> None:
    values = written(record(x="long"), {"x": 1_714_564_800_123})
    millis = read(values, record(x=MILLIS))
    assert read(values, record(x=ANY_LONG), writer=record(x=MILLIS)) == millis
    assert read(values, "x TIMESTAMP", writer=record(x=MILLIS)) == millis
    assert read(values, record(x="long"), writer=record(x=MILLIS)) == [(1_714_564_800_123,)]


@pytest.mark.parametrize(
    ("wrote", "reads", "why"),
    [
        (record(x="long"), record(x="int"), "x is long, and is wanted as int"),
        (record(x="string"), record(x="long"), "x is string"),
        (record(x="string"), record(y="string"), "there is no y, which has no default"),
        (record(x="string"), record("Order", x="string"), "of the record Click, and not of Order"),
        (record(x=NARROW), record(x={**NARROW, "scale": 1}), "wanted as decimal"),
        (record(x=["null", "string"]), record(x="long"), "wanted as long"),
        (record(x="long"), "x TIMESTAMP", "wanted as timestamp-micros"),
        (record(x=MILLIS), "x BIGINT", "wanted as long"),
        (record(x="string"), "y STRING NOT NULL", "there is no y"),
    ],
)
def test_a_writer_that_the_reader_cannot_read_is_refused(
    spark: SparkSession, wrote: str, reads: str, why: str
) -> None:
    with pytest.raises(ColumnTypeError, match=why):
        avro_format(reads, writer=wrote)


def test_an_alias_and_each_kind_of_default_are_read() -> None:
    reader = record(
        seite={"of": "string", "aliases": ["page"]},
        n={"of": "long", "default": 7},
        d={"of": ["double", "null"], "default": 1.5},
        b={"of": "bytes", "default": "\u00ff"},
        m={"of": {"type": "map", "values": "int"}, "default": {"a": 1}},
        a={"of": {"type": "array", "items": "string"}, "default": []},
        k={"of": NEW_KIND, "default": "A"},
        day={"of": {"type": "int", "logicalType": "date"}, "default": 0},
        z={"of": ["null", "string"], "default": None},
    )
    values = written(record(page="string"), {"page": "/a"}, {"page": "/b"})
    found = read(values, reader, writer=record(page="string"))
    assert [row[0] for row in found] == ["/a", "/b"]
    assert found[0][1:7] == (7, 1.5, b"\xff", [("a", 1)], [], "A")
    assert str(found[1][7]) == "1970-01-01"
    assert found[1][8] is None


def test_columns_are_taken_by_name_whatever_the_record_is_called(spark: SparkSession) -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "id", "type": "int"}]}
    writer = record("Any.Thing", kind=OLD_KIND, inside=["null", inner], page="string")
    values = written(writer, {"kind": "C", "inside": {"id": 3}, "page": "/a"})
    wanted = "page STRING NOT NULL, kind STRING, inside STRUCT<id: BIGINT, no: INT>, none DOUBLE"
    assert read(values, wanted, writer=writer) == [("/a", "C", {"id": 3, "no": None}, None)]


def test_a_map_with_a_key_twice_and_endless_counts_are_no_records() -> None:
    schema = record(m={"type": "map", "values": "int"}, a={"type": "array", "items": "int"})
    values = [
        b"\x04\x02a\x02\x02a\x04\x00\x00",
        b"\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x00" + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00",
        b"\x03\x06\x02a\x02\x02b\x04\x00\x03\x04\x02\x04\x00",
    ]
    assert read(values, schema) == [
        "wrong type: m",
        "truncated record",
        "truncated record",
        ([("a", 1), ("b", 2)], [1, 2]),
    ]


def test_a_long_array_of_one_value_is_read_like_many_short_ones() -> None:
    schema = record(a={"type": "array", "items": ["null", "string"]}, n="int")
    long = [None if at % 7 == 0 else str(at) for at in range(5_000)]
    values = written(schema, {"a": long, "n": 1}, {"a": ["x"], "n": 2}, {"a": long[:99], "n": 3})
    cut = values[0][:-20]
    assert read([values[0], cut, values[1], values[2]], schema) == [
        (long, 1),
        "truncated record",
        (["x"], 2),
        (long[:99], 3),
    ]


@pytest.mark.parametrize(
    ("schema", "kind", "why"),
    [
        ('{"type": "record"}', ArgumentError, "a record has no name"),
        ('{"type": "recor', ArgumentError, "no JSON"),
        ('"string"', ArgumentError, "schema is string"),
        (record(x="Y"), ArgumentError, "there is no type 'Y'"),
        (record(x=["null", "Click"]), ArgumentError, "Click is inside of itself"),
        (record(x=["int", "string"]), ColumnTypeError, "a column has one type"),
        (record(x="null"), ColumnTypeError, "null"),
        (record(x={"type": "array", "items": "null"}), ArgumentError, "can be endless"),
        (record(x="int", X="int"), ColumnError, "x more than once"),
        (record(), ColumnError, "no fields"),
        (record(x={**NARROW, "precision": 39}), ArgumentError, "39 digits"),
        (record(x={"of": "long", "default": "a"}), None, ""),
        (Path("nowhere.avsc"), ArgumentError, "nowhere.avsc"),
        ("page STRING", ArgumentError, "nothing says by which schema"),
        (
            StructType([StructField("x", StringType()), StructField("X", LongType())]),
            ColumnError,
            "x more than once",
        ),
    ],
    ids=str,
)
def test_a_schema_that_no_table_can_hold_is_refused(
    spark: SparkSession, schema: Any, kind: type[Exception] | None, why: str
) -> None:
    if kind is None:
        assert avro_format(schema).schema.names == ["x"]
        return
    with pytest.raises(kind, match=why):
        avro_format(schema)
