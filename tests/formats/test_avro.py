"""Avro values become typed rows or dead letters with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.support.avro_corpus import encode_records, record_schema, with_header
from tests.support.raw_records import raw
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.formats import avro_format
from tidegate.formats.avro._avro_format import AvroReader


def decode(values: Sequence[bytes | None], schema: Any, **arguments: Any) -> list[Any]:
    """Return each record as a tuple, or the reason of the dead letter."""
    value_format = avro_format(schema, **arguments)
    reader = AvroReader(value_format.reader, value_format.writer, value_format.registry)
    records, reasons = reader.read(pa.array(values, pa.binary()))
    records.validate(full=True)
    return [
        reason or tuple(record.values())
        for record, reason in zip(records.to_pylist(), reasons.to_pylist(), strict=True)
    ]


CLICK = record_schema(
    page="string",
    ms=["null", "long"],
    at={"type": "long", "logicalType": "timestamp-millis"},
    kind={"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]},
)
GOOD = encode_records(
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
    (
        b"\x00\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00",
        f"out of range: at = {2**63 - 1}",
    ),
]


@pytest.mark.slow
def test_each_value_is_a_record_or_has_the_documented_reason(spark: SparkSession) -> None:
    value_format = avro_format(CLICK)
    values = [*GOOD, *[value for value, _ in BAD]]
    decoded = value_format.decode(raw(spark, values))
    assert decoded.schema["record"].dataType.simpleString() == value_format.schema.simpleString()
    at = F.unix_millis("record.at").alias("at")
    rows = decoded.orderBy("offset").select("record.page", "record.ms", at, "record.kind", "bad")
    collected = rows.collect()
    assert [tuple(row) for row in collected[: len(GOOD)]] == [
        ("/a", 7, 1_714_564_800_123, "BUY", False),
        ("é", None, -1, "VIEW", False),
    ]
    assert [row.bad for row in collected] == [False] * len(GOOD) + [True] * len(BAD)
    reasons = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in reasons] == [reason for _, reason in BAD]


def test_a_tombstone_can_be_a_row(spark: SparkSession) -> None:
    decoded = avro_format(CLICK, tombstones="row").decode(raw(spark, [None, b""]))
    rows = decoded.orderBy("offset").select("bad", "record.page").collect()
    assert [tuple(row) for row in rows] == [(False, None), (True, None)]


def test_the_header_selects_the_writer_schema() -> None:
    older = record_schema(page="string")
    newer = record_schema(
        ms="int", page="string", more={"type": "array", "items": ["null", "string"]}
    )
    other = record_schema("Order", page="string")
    reader = record_schema(page="string", ms={"of": ["null", "long"], "default": None})
    values = [
        with_header(1, encode_records(older, {"page": "/a"})[0]),
        with_header(2, encode_records(newer, {"page": "/b", "ms": 7, "more": ["x", None]})[0]),
        with_header(1, encode_records(older, {"page": "/c"})[0]),
        with_header(3, encode_records(other, {"page": "/d"})[0]),
        with_header(4, b"{}"),
        with_header(77, b""),
        b"\x01\0\0\0\x01\x00",
        b"\0\0\0\0",
        b"",
        with_header(2, encode_records(newer, {"page": "/e", "ms": 7, "more": ["x"]})[0][:-2]),
        with_header(1, b"\x00\x00"),
        None,
    ]
    assert decode(values, reader, registry={1: older, 2: newer, 3: other, 4: '"bytes"'}) == [
        ("/a", None),
        ("/b", 7),
        ("/c", None),
        "incompatible schema 3: record Order, expected Click",
        "incompatible schema 4: bytes, expected a record",
        "unknown schema id: 77",
        "wrong magic byte",
        "no schema header",
        "empty value",
        "truncated record",
        "bytes after the record",
        "null value",
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([], pa.binary()), []),
        (pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")]), []),
        (pa.nulls(2, pa.binary()), ["null value", "null value"]),
        (pa.array([b"\xff", None, *GOOD], pa.binary()).slice(1, 2), ["null value", None]),
        (pa.array([None, GOOD[0]], pa.large_binary()), ["null value", None]),
    ],
    ids=["empty", "no offsets", "nulls", "slice", "large binary"],
)
def test_arrow_arrays_of_any_layout_are_read(values: pa.Array, expected: list[str | None]) -> None:
    value_format = avro_format(CLICK)
    records, reasons = AvroReader(value_format.reader, value_format.writer, None).read(values)
    assert reasons.to_pylist() == expected
    assert len(records) == len(expected)


ANY_LONG = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
NARROW = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
OLD_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B", "C"]}
NEW_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B", "other"], "default": "other"}
STRICT_KIND = {"type": "enum", "name": "K", "symbols": ["A", "B"]}

RESOLUTION_CASES: list[tuple[str, Any, Any, Any, Any]] = [
    ("int as long", "int", "long", -5, -5),
    ("int as double", "int", "double", 3, 3.0),
    ("long as float", "long", "float", 3, 3.0),
    ("float as double", "float", "double", 1.5, 1.5),
    ("text as bytes", "string", "bytes", "é", "é".encode()),
    ("bytes as text", "bytes", "string", "é".encode(), "é"),
    ("bytes as text", "bytes", "string", b"\xff", "invalid UTF-8: x"),
    ("not null as nullable", "int", ["null", "long"], 5, 5),
    ("null as not null", ["null", "int"], "int", None, "missing field: x"),
    ("branch of a union", ["null", "int", "string"], ["null", "long"], 5, 5),
    ("other branch of a union", ["null", "int", "string"], ["null", "long"], "a", "wrong type: x"),
    ("symbol", OLD_KIND, NEW_KIND, "B", "B"),
    ("symbol by default", OLD_KIND, NEW_KIND, "C", "other"),
    ("symbol without default", OLD_KIND, STRICT_KIND, "C", "wrong type: x"),
    ("decimal", NARROW, WIDE, Decimal("-1.25"), Decimal("-1.25")),
    ("int or long", ["int", "long"], ["int", "long"], 2**40, 2**40),
]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [case[1:] for case in RESOLUTION_CASES],
    ids=[case[0] for case in RESOLUTION_CASES],
)
def test_values_are_converted_to_the_reader_schema(
    writer: Any, reader: Any, value: Any, expected: Any
) -> None:
    values = encode_records(record_schema(x=writer), {"x": value})
    decoded = decode(values, record_schema(x=reader), writer=record_schema(x=writer))
    assert decoded == [expected if isinstance(expected, str) and ":" in expected else (expected,)]


@pytest.mark.usefixtures("spark")
def test_timestamps_in_other_units_are_the_same_instants() -> None:
    values = encode_records(record_schema(x="long"), {"x": 1_714_564_800_123})
    millis = decode(values, record_schema(x=MILLIS))
    assert decode(values, record_schema(x=ANY_LONG), writer=record_schema(x=MILLIS)) == millis
    assert decode(values, "x TIMESTAMP", writer=record_schema(x=MILLIS)) == millis
    assert decode(values, record_schema(x="long"), writer=record_schema(x=MILLIS)) == [
        (1_714_564_800_123,)
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        (record_schema(x="long"), record_schema(x="int"), "x is long, expected int"),
        (record_schema(x="string"), record_schema(x="long"), "x is string"),
        (record_schema(x="string"), record_schema(y="string"), "y is missing and has no default"),
        (
            record_schema(x="string"),
            record_schema(x="string", y={"of": "float", "default": 1e300}),
            "the default of y does not match its type",
        ),
        (
            record_schema(x="string"),
            record_schema(x="string", y={"of": "string", "default": "\ud800"}),
            "the default of y does not match its type",
        ),
        (
            record_schema(x="string"),
            record_schema("Order", x="string"),
            "record Click, expected Order",
        ),
        (record_schema(x=NARROW), record_schema(x={**NARROW, "scale": 1}), "expected decimal"),
        (record_schema(x=["null", "string"]), record_schema(x="long"), "expected long"),
        (record_schema(x="long"), "x TIMESTAMP", "expected timestamp-micros"),
        (record_schema(x=MILLIS), "x BIGINT", "expected long"),
        (record_schema(x="string"), "y STRING NOT NULL", "y is missing"),
    ],
)
def test_an_incompatible_writer_schema_is_rejected(
    spark: SparkSession, writer: str, reader: str, message: str
) -> None:
    with pytest.raises(ColumnTypeError, match=message):
        avro_format(reader, writer=writer)


TREE = record_schema(
    id="long",
    parent={"of": ["null", "Click"], "default": None},
    children={"of": {"type": "array", "items": "Click"}, "default": []},
    named={"of": {"type": "map", "values": "Click"}, "default": {}},
    wide={"of": ["null", {**WIDE, "precision": 64}], "default": None},
    page="string",
)


def tree(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "page": f"/{number}", **more}


def test_a_recursive_record_is_read_if_its_recursive_fields_are_not() -> None:
    leaf = tree(9)
    chain = leaf
    for number in range(90):
        chain = tree(number, parent=chain)
    values = encode_records(
        TREE,
        tree(1),
        tree(2, parent=tree(3, children=[leaf, tree(4, named={"a": leaf})])),
        tree(5, children=[leaf] * 200, named={"a": leaf, "b": tree(6, parent=leaf)}),
        chain,
    )
    chain = tree(99, parent=tree(98, parent=chain, children=[chain]))
    for number in range(20):
        chain = tree(number, parent=chain)
    values.append(encode_records(TREE, chain)[0])
    values.append(values[1][:-4])
    assert decode(values, "page STRING, id BIGINT", writer=TREE) == [
        ("/1", 1),
        ("/2", 2),
        ("/5", 5),
        ("/89", 89),
        "more than 100 levels of a recursive record",
        "truncated record",
    ]
    columns = "parent STRUCT<id: BIGINT, parent: STRUCT<page: STRING>>"
    assert decode(values[1:3], columns, writer=TREE) == [
        ({"id": 3, "parent": None},),
        (None,),
    ]


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}


@pytest.mark.usefixtures("spark")
def test_nanoseconds_are_truncated_to_microseconds() -> None:
    writer = record_schema(at=NANOS, local=LOCAL_NANOS)
    values = encode_records(
        record_schema(at="long", local="long"),
        {"at": 1_772_445_600_123_456_789, "local": -1},
        {"at": 2**63 - 1, "local": 0},
    )
    expected = [
        (datetime(2026, 3, 2, 10, 0, 0, 123_456, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        "not finite: at = infinity",
    ]
    assert decode(values, writer) == expected
    assert decode(values, "at TIMESTAMP, local TIMESTAMP_NTZ", writer=writer) == expected


def test_aliases_and_defaults_of_all_types_are_read() -> None:
    reader = record_schema(
        landing_page={"of": "string", "aliases": ["page"]},
        n={"of": "long", "default": 7},
        d={"of": ["double", "null"], "default": 1.5},
        b={"of": "bytes", "default": "\u00ff"},
        m={"of": {"type": "map", "values": "int"}, "default": {"a": 1}},
        a={"of": {"type": "array", "items": "string"}, "default": []},
        k={"of": NEW_KIND, "default": "A"},
        day={"of": {"type": "int", "logicalType": "date"}, "default": 0},
        z={"of": ["null", "string"], "default": None},
    )
    values = encode_records(record_schema(page="string"), {"page": "/a"}, {"page": "/b"})
    decoded = decode(values, reader, writer=record_schema(page="string"))
    assert [row[0] for row in decoded] == ["/a", "/b"]
    assert decoded[0][1:7] == (7, 1.5, b"\xff", [("a", 1)], [], "A")
    assert str(decoded[1][7]) == "1970-01-01"
    assert decoded[1][8] is None


def test_columns_match_by_name_and_ignore_the_record_name(spark: SparkSession) -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "id", "type": "int"}]}
    writer = record_schema("Any.Thing", kind=OLD_KIND, inside=["null", inner], page="string")
    values = encode_records(writer, {"kind": "C", "inside": {"id": 3}, "page": "/a"})
    columns = "page STRING NOT NULL, kind STRING, inside STRUCT<id: BIGINT, no: INT>, none DOUBLE"
    assert decode(values, columns, writer=writer) == [("/a", "C", {"id": 3, "no": None}, None)]


def test_duplicate_map_keys_and_excessive_counts_are_dead_letters() -> None:
    schema = record_schema(m={"type": "map", "values": "int"}, a={"type": "array", "items": "int"})
    values = [
        b"\x04\x02a\x02\x02a\x04\x00\x00",
        b"\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x00" + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00",
        b"\x03\x06\x02a\x02\x02b\x04\x00\x03\x04\x02\x04\x00",
    ]
    assert decode(values, schema) == [
        "wrong type: m",
        "truncated record",
        "truncated record",
        ([("a", 1), ("b", 2)], [1, 2]),
    ]


def test_a_long_array_is_read_like_many_short_ones() -> None:
    schema = record_schema(a={"type": "array", "items": ["null", "string"]}, n="int")
    long = [None if index % 7 == 0 else str(index) for index in range(5_000)]
    values = encode_records(
        schema, {"a": long, "n": 1}, {"a": ["x"], "n": 2}, {"a": long[:99], "n": 3}
    )
    truncated = values[0][:-20]
    assert decode([values[0], truncated, values[1], values[2]], schema) == [
        (long, 1),
        "truncated record",
        (["x"], 2),
        (long[:99], 3),
    ]


@pytest.mark.parametrize(
    ("schema", "error_type", "message"),
    [
        ('{"type": "record"}', ArgumentError, "record without a name"),
        ('{"type": "recor', ArgumentError, "not JSON"),
        ('"string"', ArgumentError, "invalid schema: string"),
        (record_schema(x="Y"), ArgumentError, "unknown type 'Y'"),
        (record_schema(x=["null", "Click"]), ColumnTypeError, "recursive record Click"),
        (record_schema(x=["int", "string"]), ColumnTypeError, "has no single column type"),
        (record_schema(x="null"), ColumnTypeError, "the type null"),
        (record_schema(x={"type": "array", "items": "null"}), ArgumentError, "is unbounded"),
        (record_schema(x="int", X="int"), ColumnError, "duplicate fields in schema: x"),
        (record_schema(), ColumnError, "no fields in schema"),
        (record_schema(x={**NARROW, "precision": 39}), ColumnTypeError, "39 digits"),
        (record_schema(x={"of": "long", "default": "a"}), None, ""),
        (Path("nowhere.avsc"), ArgumentError, "nowhere.avsc"),
        ("page STRING", ArgumentError, "missing writer"),
        (
            StructType([StructField("x", StringType()), StructField("X", LongType())]),
            ColumnError,
            "duplicate fields in schema: x",
        ),
    ],
    ids=str,
)
def test_an_unsupported_schema_is_rejected(
    spark: SparkSession, schema: Any, error_type: type[Exception] | None, message: str
) -> None:
    if error_type is None:
        assert avro_format(schema).schema.names == ["x"]
        return
    with pytest.raises(error_type, match=message):
        avro_format(schema)
