"""Protobuf values become the rows that the Protobuf library decodes, or dead letters."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from google.protobuf.message import DecodeError
from pyspark.sql import SparkSession

from tests.support.avro_corpus import corrupt_bytes, is_same_value, with_header
from tests.support.protobuf_corpus import DESCRIPTORS, All, Inner, random_message, to_row
from tests.support.raw_records import raw
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.formats import protobuf_format
from tidegate.formats.protobuf._proto_text import parse_proto
from tidegate.formats.protobuf._protobuf_schema import message_name_at

TEXT = """
syntax = "proto3"; // message Not {
package shop;
option x = { a: "}" };
enum Kind { NONE = 0; }
message Inner { int32 id = 1; message Deep { oneof a { int32 b = 1; } } message Next {} }
/* message Neither { } */
message All { map<string, Inner> counts = 60; }
"""


def decode(values: list[bytes], message: str = "shop.All", **arguments: Any) -> list[Any]:
    """Return each record, or the reason of the dead letter."""
    value_format = protobuf_format(DESCRIPTORS, message, **arguments)
    records, reasons = value_format._read_function()(pa.array(values, pa.binary()))
    records.validate(full=True)
    if "at" in value_format.schema.names:
        at = records.field("at").cast(pa.int64()).to_pylist()
    rows = []
    for index, (record, reason) in enumerate(
        zip(records.to_pylist(), reasons.to_pylist(), strict=True)
    ):
        if reason is None and message == "shop.All":
            record = {**record, "at": at[index], "counts": dict(record["counts"])}
        rows.append(reason or record)
    return rows


@pytest.mark.draws("count", short=[400], long=[40_000])
def test_messages_are_decoded_as_by_the_protobuf_library(count: int) -> None:
    rng = random.Random(count)
    messages = [random_message(rng) for _ in range(count)]
    values = [message.SerializeToString() for message in messages]
    # Concatenated messages are merged, and the last value of a scalar field wins.
    concatenated = [first + second for first, second in pairwise(values)]
    assert decode(values) == [to_row(message) for message in messages]
    assert decode(concatenated) == [to_row(All.FromString(value)) for value in concatenated]


def check_corrupt_messages(seed: int, count: int) -> Counter[str]:
    """Decode random corrupt messages; return the number of good and dead ones."""
    rng = random.Random(seed)
    values = [corrupt_bytes(rng, random_message(rng).SerializeToString()) for _ in range(count)]
    records = decode(values)
    for value, record in zip(values, records, strict=True):
        try:
            expected: Any = to_row(All.FromString(value))
        except DecodeError:
            assert isinstance(record, str), value
            continue
        except KeyError:
            expected = "unknown enum number"
        if isinstance(record, str):
            assert record.startswith(("wrong type", "malformed record")), (value, record)
        else:
            # Libraries differ about map entries with unknown fields.
            assert is_same_value({**record, "counts": expected["counts"]}, expected), value
    return Counter("dead" if isinstance(record, str) else "good" for record in records)


@pytest.mark.draws("count", short=[1_000], long=[100_000])
def test_a_corrupt_message_matches_the_library_or_is_dead_and_affects_no_other_message(
    count: int,
) -> None:
    assert check_corrupt_messages(-count, count)["good"] > count / 20


BAD: list[tuple[bytes | None, str]] = [
    (None, "null value"),
    (b"\x08", "truncated record"),
    (b"\x12\x05a", "truncated record"),
    (b"\x08" + b"\xff" * 11, "malformed record"),
    (b"\x00\x01", "malformed record"),
    (b"\x0b\x0c", "malformed record"),
    (b"\x12\x01\xff", "invalid UTF-8: tags"),
]


def test_each_value_is_a_record_or_has_the_documented_reason(spark: SparkSession) -> None:
    value_format = protobuf_format(DESCRIPTORS, "shop.Inner")
    values = [Inner(id=7, tags=["a", "b"]).SerializeToString(), b"", b"\xf8\x07\x01\x08\x09"]
    decoded = value_format.decode(raw(spark, [*values, *[value for value, _ in BAD]]))
    assert decoded.schema["record"].dataType.simpleString() == value_format.schema.simpleString()
    rows = decoded.orderBy("offset").select("record.id", "record.tags", "bad").collect()
    assert [tuple(row) for row in rows[:3]] == [
        (7, ["a", "b"], False),
        (0, [], False),
        (9, [], False),
    ]
    assert [row.bad for row in rows[3:]] == [True] * len(BAD)
    dead = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in dead] == [reason for _, reason in BAD]


def test_the_message_indexes_of_the_header_must_lead_to_the_message() -> None:
    value = Inner(id=7).SerializeToString()
    values = [
        with_header(1, b"\0" + value),
        with_header(1, b"\x02\0" + value),
        with_header(1, b"\x02\x02" + value),
        with_header(1, b"\x04\0\x02" + value),
        with_header(1, b"\x02\x0a" + value),
        with_header(9, b"\0" + value),
        with_header(1, b"\x02"),
        value,
    ]
    assert decode(values, "shop.Inner", registry={1: TEXT}) == [
        {"id": 7, "tags": []},
        {"id": 7, "tags": []},
        "wrong message in schema 1: shop.All",
        "wrong message in schema 1: shop.Inner.Next",
        "wrong message in schema 1: [5]",
        "unknown schema id: 9",
        "truncated record",
        "wrong magic byte",
    ]
    assert message_name_at(parse_proto(TEXT), [0, 0]) == "shop.Inner.Deep"


def test_columns_select_fields_and_set_not_null(spark: SparkSession) -> None:
    values = [All(maybe=5, one_string="a").SerializeToString(), b""]
    value_format = protobuf_format(
        DESCRIPTORS, "shop.All", columns="maybe BIGINT NOT NULL, one_string STRING"
    )
    records, reasons = value_format._read_function()(pa.array(values))
    assert records.to_pylist() == [{"maybe": 5, "one_string": "a"}, None]
    assert reasons.to_pylist() == [None, "missing field: maybe"]
    with pytest.raises(ColumnTypeError, match="invalid type of column 'maybe': int"):
        protobuf_format(DESCRIPTORS, "shop.All", columns="maybe INT")


def recursive_descriptor_set() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=11, label=1, type_name=".Node")
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


def page_descriptor_set() -> bytes:
    """Return a message with a Struct and an empty message, one of each in a oneof."""
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", syntax="proto3")
    file.message_type.add(name="Empty")
    page = file.message_type.add(name="Page")
    page.oneof_decl.add(name="choice")
    struct, empty = ".google.protobuf.Struct", ".Empty"
    page.field.add(name="page", number=1, type=9, label=1)
    page.field.add(name="extra", number=2, type=11, label=1, type_name=struct)
    page.field.add(name="none", number=3, type=11, label=1, type_name=empty)
    page.field.add(name="text", number=4, type=9, label=1, oneof_index=0)
    page.field.add(name="more", number=5, type=11, label=1, type_name=struct, oneof_index=0)
    files = [
        file,
        descriptor_pb2.FileDescriptorProto.FromString(struct_pb2.DESCRIPTOR.serialized_pb),
    ]
    return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def test_fields_that_cannot_be_read_are_skipped_if_no_column_reads_them(
    spark: SparkSession,
) -> None:
    content = page_descriptor_set()
    struct = struct_pb2.Struct(fields={"k": struct_pb2.Value(string_value="x")})
    extra = struct.SerializeToString()
    length = len(extra).to_bytes(1)
    page, text = b"\x0a\x01/", b"\x22\x01a"
    skipped = b"\x12" + length + extra + b"\x1a\x00"
    values = [page + skipped, page + text, text + b"\x2a" + length + extra, skipped + text]
    value_format = protobuf_format(content, "Page", columns="page STRING, text STRING")
    records, reasons = value_format._read_function()(pa.array(values))
    assert reasons.null_count == len(values)
    assert [tuple(record.values()) for record in records.to_pylist()] == [
        ("/", None),
        ("/", "a"),
        ("", None),
        ("", "a"),
    ]
    for columns, message in (
        (None, "recursive message google.protobuf.Struct"),
        ("extra STRING", "recursive message google.protobuf.Struct"),
        ("none STRING", "message Empty without fields"),
    ):
        with pytest.raises(ArgumentError, match=message):
            protobuf_format(content, "Page", columns=columns)


@pytest.mark.parametrize(
    ("content", "message", "error_text"),
    [
        (b"\xff\xff", "shop.All", "not a descriptor set"),
        (DESCRIPTORS, "shop.Any", "unknown message 'shop.Any'"),
        (recursive_descriptor_set(), "Node", "recursive message Node"),
        (Path("nowhere.desc"), "shop.All", "nowhere.desc"),
    ],
    ids=["bytes", "message", "recursive", "file"],
)
def test_an_unsupported_descriptor_set_is_rejected(
    content: bytes | Path, message: str, error_text: str
) -> None:
    with pytest.raises(ArgumentError, match=error_text):
        protobuf_format(content, message)
