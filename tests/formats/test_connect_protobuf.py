"""Messages of Kafka Connect's Protobuf converter become the rows of its source."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.avro_corpus import corrupt_bytes
from tests.support.connect_protobuf import CONNECT, Nullables, ProtobufConverter
from tests.support.raw_records import raw
from tests.support.registry_server import FakeRegistry, registry_server
from tests.support.replicated_topics import (
    DATE,
    FIRST_MILLIS,
    INT,
    INTEGERS,
    LOCAL_TIME,
    LONG,
    MONEY,
    TEXT,
    ZONED_TIME,
    SourceRecords,
    schema_record,
)
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.formats import SchemaRegistry, connect_protobuf_format, debezium_format

pytestmark = pytest.mark.usefixtures("spark")
BOOLEAN = {"type": "boolean"}
BYTES = {"type": "bytes"}
DAY = {"type": "int32", "name": f"{CONNECT}Date"}
TIME = {"type": "int32", "name": f"{CONNECT}Time"}
INSTANT = {"type": "int64", "name": f"{CONNECT}Timestamp"}
VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{**INT, "field": "scale"}, {**BYTES, "field": "value"}],
}
POINT = {
    "type": "struct",
    "name": "io.debezium.data.geometry.Point",
    "fields": [{"type": "double", "field": "x"}, {"type": "double", "field": "y"}],
}


def record(types: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    """Return a row in JSON with its schema part; a type can have "optional"."""
    fields = [{**data_type, "field": name} for name, data_type in types.items()]
    return schema_record({"type": "struct", "name": "shop.Row", "fields": fields}, row)


def optional(data_type: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**data_type, "optional": True}


@contextmanager
def converted(
    *records: bytes, nullables: Nullables = "optional"
) -> Iterator[tuple[FakeRegistry, list[bytes | None]]]:
    """Serve a registry with the schemas of the records, which are yielded in Protobuf."""
    with registry_server() as served:
        converter = ProtobufConverter(served, nullables)
        yield served, [converter.convert(each, "rows-value") for each in records]


def decode(
    columns: str, *records: bytes, nullables: Nullables = "optional", **arguments: Any
) -> list[Any]:
    """Return each row, or the reason of the dead letter."""
    with converted(*records, nullables=nullables) as (served, values):
        value_format = connect_protobuf_format(
            columns, registry=SchemaRegistry(served.url), **arguments
        )
        rows, reasons = value_format._read_function()(pa.array(values, pa.binary()))
    rows.validate(full=True)
    return [
        reason or row for row, reason in zip(rows.to_pylist(), reasons.to_pylist(), strict=True)
    ]


TYPES: dict[str, Mapping[str, Any]] = {
    "small": {"type": "int16"},
    "number": INT,
    "large": LONG,
    "ratio": {"type": "double"},
    "single": {"type": "float"},
    "active": BOOLEAN,
    "name": TEXT,
    "content": BYTES,
    "price": MONEY,
    "credit": VARIABLE,
    "day": DAY,
    "days": DATE,
    "time": TIME,
    "at": INSTANT,
    "local": LOCAL_TIME,
    "zoned": ZONED_TIME,
    "sizes": INTEGERS,
    "place": POINT,
}
COLUMNS = (
    "small INT, number BIGINT, large BIGINT, ratio DOUBLE, single DOUBLE, active BOOLEAN, "
    "name STRING, content BINARY, price DECIMAL(10, 2), credit DECIMAL(20, 3), day DATE, "
    "days DATE, time INT, at TIMESTAMP, local TIMESTAMP_NTZ, zoned TIMESTAMP, "
    "sizes ARRAY<INT>, place STRUCT<x: DOUBLE, y: DOUBLE>, later STRING"
)
ROW = {
    "small": -7,
    "number": 2**31 - 1,
    "large": -(2**63),
    "ratio": 0.1,
    "single": 1.5,
    "active": True,
    "name": "ü",
    "content": "AAH/",
    "price": "mBw=",
    "credit": {"scale": 3, "value": "ANSx"},
    "day": -719_162,
    "days": 20_514,
    "time": 86_399_999,
    "at": FIRST_MILLIS,
    "local": FIRST_MILLIS * 1_000 + 1,
    "zoned": "2026-03-02T09:00:00.000001+05:30",
    "sizes": [3, 0, -1],
    "place": {"x": 1.5, "y": -2.0},
}
ROW_RECORD = record({name: optional(data_type) for name, data_type in TYPES.items()}, ROW)


@pytest.mark.parametrize("nullables", ["plain", "optional", "wrapper"])
def test_values_of_every_type_are_those_of_the_source(nullables: Nullables) -> None:
    (decoded,) = decode(COLUMNS, ROW_RECORD, nullables=nullables, timestamps="microseconds")
    instant = datetime.fromtimestamp(FIRST_MILLIS / 1_000, UTC)
    assert decoded == {
        **ROW,
        "content": b"\x00\x01\xff",
        "price": Decimal("-265.96"),
        "credit": Decimal("54.449"),
        "day": date(1, 1, 1),
        "days": date(2026, 3, 2),
        "at": instant,
        "local": instant.replace(tzinfo=None, microsecond=1),
        "zoned": datetime(2026, 3, 2, 3, 30, 0, 1, UTC),
        "later": None,
    }


@pytest.mark.parametrize(
    ("nullables", "expected"),
    [
        (
            "optional",
            [
                {"id": 0, "n": 0, "name": "", "day": None},
                {"id": 0, "n": None, "name": None, "day": None},
            ],
        ),
        (
            "wrapper",
            [
                {"id": 0, "n": 0, "name": "", "day": None},
                {"id": 0, "n": None, "name": None, "day": None},
            ],
        ),
        ("plain", ["null or default: n", "null or default: n"]),
    ],
)
def test_a_null_is_not_read_as_a_default(nullables: Nullables, expected: list[Any]) -> None:
    types = {"id": INT, "n": optional(INT), "name": optional(TEXT), "day": optional(DAY)}
    records = [record(types, {"id": 0, "n": 0, "name": ""}), record(types, {"id": 0})]
    columns = "id INT NOT NULL, n INT, name STRING, day DATE"
    assert decode(columns, *records, nullables=nullables) == expected
    # What the source declares as NOT NULL has defaults.
    plain = decode("n INT NOT NULL", records[0], nullables="plain")
    assert plain == [{"n": 0}]


def test_each_version_of_a_table_is_decoded_by_its_own_schema() -> None:
    first = record({"id": INT, "old": TEXT, "name": TEXT}, {"id": 1, "old": "x", "name": "a"})
    # Without the column, the fields after it have other numbers.
    second = record({"id": INT, "name": TEXT, "city": TEXT}, {"id": 2, "name": "b", "city": "c"})
    assert decode("id INT, name STRING, city STRING", first, second, first) == [
        {"id": 1, "name": "a", "city": None},
        {"id": 2, "name": "b", "city": "c"},
        {"id": 1, "name": "a", "city": None},
    ]


@pytest.mark.parametrize(
    ("column", "data_type", "value", "reason"),
    [
        ("x DECIMAL(3, 2)", MONEY, "mBw=", "out of range: x = -265.96"),
        ("x DECIMAL(10, 2)", TEXT, "12.345", "out of range: x = 12.345"),
        ("x DECIMAL(10, 2)", TEXT, "NaN", "not finite: x = NaN"),
        ("x DECIMAL(10, 2)", TEXT, "dear", "wrong type: x"),
        ("x DATE", DATE, 2_932_897, "out of range: x = 2932897"),
        ("x DATE", TEXT, "2026-02-30", "wrong type: x"),
        ("x TIMESTAMP", ZONED_TIME, "infinity", "not finite: x = infinity"),
        ("x TIMESTAMP", LOCAL_TIME, 9_223_372_036_825_200_000, "not finite: x = infinity"),
        ("x INT", LONG, 1, "incompatible schema 1: x is int64, expected int"),
        ("x STRING", INT, 1, "incompatible schema 1: x is int32, expected string"),
        ("x INT", INTEGERS, [1], "incompatible schema 1: x is repeated int32, expected int"),
        (
            "x DATE",
            INSTANT,
            1,
            "incompatible schema 1: x is google.protobuf.Timestamp, expected date",
        ),
        ("y INT NOT NULL", INT, 1, "missing field: y"),
    ],
)
def test_values_that_a_column_cannot_store_are_dead_letters(
    column: str, data_type: Mapping[str, Any], value: Any, reason: str
) -> None:
    value_record = record({"x": optional(data_type)}, {"x": value})
    assert decode(column, value_record, timestamps="microseconds") == [reason]


@pytest.mark.draws("count", short=[300], long=[20_000])
def test_a_corrupt_message_is_a_dead_letter_or_a_row(count: int) -> None:
    rng = random.Random(count)
    with converted(ROW_RECORD) as (served, (value,)):
        registry = SchemaRegistry(served.url)
        assert value is not None
        header, body = value[:6], value[6:]
        values = [header + corrupt_bytes(rng, body) for _ in range(count)]
        value_format = connect_protobuf_format(
            COLUMNS, registry=registry, timestamps="microseconds"
        )
        rows, reasons = value_format._read_function()(pa.array(values, pa.binary()))
    rows.validate(full=True)
    assert pc.equal(rows.is_null(), reasons.is_valid()).to_pylist() == [True] * count
    dead = Counter(str(reason).partition(":")[0] for reason in reasons.drop_null().to_pylist())
    assert {"malformed record", "truncated record"} <= set(dead)
    assert rows.null_count < count


def test_a_timestamp_that_is_a_number_requires_its_unit() -> None:
    value = record({"at": optional(LOCAL_TIME)}, {"at": 1})
    assert decode("at TIMESTAMP", value) == [
        "incompatible schema 1: at is int64, expected timestamp"
    ]


def test_unknown_ids_wrong_messages_and_invalid_schemas_are_dead_letters() -> None:
    text = 'syntax = "proto3"; message Row { int32 id = 1; message Part { int32 id = 1; } }'
    value_format = connect_protobuf_format(
        "id INT", registry={1: text, 2: "message {", 3: "{}", 4: 'syntax = "proto2"; message A {}'}
    )
    body = b"\x08\x07"
    values = [
        b"\0\0\0\0\x01\0" + body,
        # The path of Row.Part: two indexes, 0 and 0.
        b"\0\0\0\0\x01\x04\0\0" + body,
        b"\0\0\0\0\x01\x02\x0a" + body,
        b"\0\0\0\0\x02\0" + body,
        b"\0\0\0\0\x03\0" + body,
        b"\0\0\0\0\x04\0" + body,
        b"\0\0\0\0\x09\0" + body,
        b"\0\0\0\0\x01\0" + body[:1],
        b"\x01\0\0\0\x01\0" + body,
        b"",
        None,
    ]
    rows, reasons = value_format._read_function()(pa.array(values, pa.binary()))
    assert rows.to_pylist()[:2] == [{"id": 7}, {"id": 7}]
    assert reasons.to_pylist() == [
        None,
        None,
        "incompatible schema 1: no message at [5]",
        "incompatible schema 2: invalid name '{'",
        "incompatible schema 3: unexpected end of the file",
        "incompatible schema 4: message A without fields",
        "unknown schema id: 9",
        "truncated record",
        "wrong magic byte",
        "empty value",
        "null value",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("nullables", ["plain", "optional", "wrapper"])
def test_debezium_changes_are_decoded(spark: SparkSession, nullables: Nullables) -> None:
    table = SourceRecords({"id": INT, "n": LONG, "name": TEXT, "price": MONEY, "at": LOCAL_TIME})
    row: dict[str, Any] = {"id": 0, "n": 5, "name": "a", "price": "mBw=", "at": 1_000_001}
    records = [
        table.change("c", 0, row),
        table.change("u", 2, {**row, "n": None, "name": "__debezium_unavailable_value"}, **row),
        table.change("d", 3, **row),
        table.tombstone(id=0),
    ]
    with registry_server() as served:
        converter = ProtobufConverter(served, nullables)
        pairs = [converter.convert_change(*each, "orders") for each in records]
        decode_values = partial(
            connect_protobuf_format,
            registry=SchemaRegistry(served.url),
            timestamps="microseconds",
        )
        value_format = debezium_format(
            "id INT NOT NULL, n BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP_NTZ",
            key="id",
            value_format=decode_values,
        ).passing_unavailable()
        keys = F.array(*[F.lit(key) for key, _ in pairs])
        values = raw(spark, [value for _, value in pairs])
        decoded = value_format.decode(
            values.withColumn("key", F.element_at(keys, F.col("offset").cast("int") + 1))
        )
        rows = decoded.where("not bad").orderBy("offset").select("record.*").collect()
        dead = value_format.explain_failures(decoded.where("bad")).select("offset", "reason")
        reasons = [tuple(each) for each in dead.collect()]
    price, at = Decimal("-265.96"), datetime(1970, 1, 1, 0, 0, 1, 1)
    update = ("update", 0, [2], ["name"], (0, None, None, price, at))
    expected = [
        ("create", 0, [0], None, (0, 5, "a", price, at)),
        *([] if nullables == "plain" else [update]),
        ("delete", 0, [3], None, None),
        ("tombstone", 0, None, None, None),
    ]
    found = [
        (
            each.op,
            each.key.id,
            each.position.source,
            each.unavailable,
            None if each.after is None else tuple(each.after),
        )
        for each in rows
    ]
    assert found == expected
    assert reasons == ([(1, "null or default: after.n")] if nullables == "plain" else [])


def test_columns_registries_and_units_are_checked_at_the_call() -> None:
    registry: dict[int, Any] = {1: ""}
    with pytest.raises(ColumnTypeError, match="invalid type of column 'a': smallint"):
        connect_protobuf_format("a SMALLINT", registry=registry)
    with pytest.raises(ColumnTypeError, match=r"invalid type of column 'p\.a': variant"):
        connect_protobuf_format("p STRUCT<a: VARIANT>", registry=registry)
    with pytest.raises(ArgumentError, match="invalid registry: None"):
        connect_protobuf_format("a INT", registry=None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="timestamps"):
        connect_protobuf_format("a INT", registry=registry, timestamps="seconds")  # type: ignore[arg-type]
