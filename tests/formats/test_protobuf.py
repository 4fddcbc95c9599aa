"""Protobuf values as typed rows, as Protobuf's own library reads them."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from pyspark.sql import SparkSession

from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.formats import protobuf_format
from tidegate.formats.protobuf._names import name_at

from ..sources.raw import raw
from .avro_corpus import damaged, same
from .proto_corpus import DESCRIPTORS, All, Inner, drawn, shown
from .test_avro import under

TEXT = """
syntax = "proto3"; // message Not {
package shop;
option x = { a: "}" };
enum Kind { NONE = 0; }
message Inner { int32 id = 1; message Deep { oneof a { int32 b = 1; } } message Next {} }
/* message Neither { } */
message All { map<string, Inner> counts = 60; }
"""


def read(values: list[bytes], message: str = "shop.All", **how: Any) -> list[Any]:
    """Return each record, or the reason why there is none."""
    form = protobuf_format(DESCRIPTORS, message, **how)
    records, reasons = form._values().read(pa.array(values, pa.binary()))
    records.validate(full=True)
    if "at" in form.schema.names:
        at = records.field("at").cast(pa.int64()).to_pylist()
    found = []
    for row, (one, why) in enumerate(zip(records.to_pylist(), reasons.to_pylist(), strict=True)):
        if why is None and message == "shop.All":
            one = {**one, "at": at[row], "counts": dict(one["counts"])}
        found.append(why or one)
    return found


@pytest.mark.draws("count", short=[400], long=[40_000])
def test_a_message_is_what_protobuf_s_own_library_reads(count: int) -> None:
    chance = random.Random(count)
    messages = [drawn(chance) for _ in range(count)]
    values = [each.SerializeToString() for each in messages]
    # What comes twice is put together, or the last one counts.
    twice = [one + other for one, other in pairwise(values)]
    assert read(values) == [shown(each) for each in messages]
    assert read(twice) == [shown(All.FromString(each)) for each in twice]


def damaged_read(seed: int, count: int) -> Counter[str]:
    """Draw damaged messages; return how many were good and dead."""
    chance = random.Random(seed)
    values = [damaged(chance, drawn(chance).SerializeToString()) for _ in range(count)]
    records = read(values)
    for value, found in zip(values, records, strict=True):
        try:
            other: Any = shown(All.FromString(value))
        except DecodeError:
            assert isinstance(found, str), value
            continue
        except KeyError:
            other = "a symbol without a name"
        if isinstance(found, str):
            assert found.startswith(("wrong type", "malformed record")), (value, found)
        else:
            # Libraries differ about entries of a map that have fields which no entry has.
            assert same({**found, "counts": other["counts"]}, other), value
    return Counter("dead" if isinstance(found, str) else "good" for found in records)


@pytest.mark.draws("count", short=[1_000], long=[100_000])
def test_a_damaged_message_is_what_the_library_reads_or_dead_and_harms_no_other(
    count: int,
) -> None:
    assert damaged_read(-count, count)["good"] > count / 20


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
    form = protobuf_format(DESCRIPTORS, "shop.Inner")
    values = [Inner(id=7, tags=["a", "b"]).SerializeToString(), b"", b"\xf8\x07\x01\x08\x09"]
    decoded = form.decode(raw(spark, [*values, *[value for value, _ in BAD]]))
    assert decoded.schema["record"].dataType.simpleString() == form.schema.simpleString()
    rows = decoded.orderBy("offset").select("record.id", "record.tags", "bad").collect()
    assert [tuple(row) for row in rows[:3]] == [
        (7, ["a", "b"], False),
        (0, [], False),
        (9, [], False),
    ]
    assert [row.bad for row in rows[3:]] == [True] * len(BAD)
    dead = form.diagnose(decoded.where("bad")).orderBy("offset").select("reason").collect()
    assert [row.reason for row in dead] == [why for _, why in BAD]


def test_the_header_names_the_message_within_its_schema() -> None:
    value = Inner(id=7).SerializeToString()
    values = [
        under(1, b"\0" + value),
        under(1, b"\x02\0" + value),
        under(1, b"\x02\x02" + value),
        under(1, b"\x04\0\x02" + value),
        under(1, b"\x02\x0a" + value),
        under(9, b"\0" + value),
        under(1, b"\x02"),
        value,
    ]
    assert read(values, "shop.Inner", registry={1: TEXT}) == [
        {"id": 7, "tags": []},
        {"id": 7, "tags": []},
        "schema 1 has shop.All at [1], not shop.Inner",
        "schema 1 has shop.Inner.Next at [0, 1], not shop.Inner",
        "schema 1 has no message at [5], not shop.Inner",
        "unknown schema id: 9",
        "truncated record",
        "wrong magic byte",
    ]
    assert name_at(TEXT, [0, 0]) == "shop.Inner.Deep"


def test_columns_are_chosen_and_not_null_is_kept(spark: SparkSession) -> None:
    values = [All(maybe=5, one_string="a").SerializeToString(), b""]
    form = protobuf_format(
        DESCRIPTORS, "shop.All", columns="maybe BIGINT NOT NULL, one_string STRING"
    )
    records, reasons = form._values().read(pa.array(values))
    assert records.to_pylist() == [{"maybe": 5, "one_string": "a"}, None]
    assert reasons.to_pylist() == [None, "missing field: maybe"]
    with pytest.raises(ColumnTypeError, match="columns has maybe int"):
        protobuf_format(DESCRIPTORS, "shop.All", columns="maybe INT")


def recursive() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=11, label=1, type_name=".Node")
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


@pytest.mark.parametrize(
    ("content", "message", "why"),
    [
        (b"\xff\xff", "shop.All", "no descriptor set"),
        (DESCRIPTORS, "shop.Any", "no message 'shop.Any'"),
        (recursive(), "Node", "Node is inside of itself"),
        (Path("nowhere.desc"), "shop.All", "nowhere.desc"),
    ],
    ids=["bytes", "message", "recursive", "file"],
)
def test_a_descriptor_that_no_table_can_hold_is_refused(
    content: bytes | Path, message: str, why: str
) -> None:
    with pytest.raises(ArgumentError, match=why):
        protobuf_format(content, message)
