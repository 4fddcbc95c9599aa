"""Kafka Connect's logical types in JSON and Avro become values of the declared columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tests.support.avro_corpus import encode_records, record_schema
from tidegate.formats import avro_format
from tidegate.formats.avro._avro_format import AvroReader
from tidegate.formats.connect_json._reader import ConnectJsonReader
from tidegate.formats.connect_json._values import Encodings

DEBEZIUM = "io.debezium."
CONNECT = "org.apache.kafka.connect.data."


def named(type_name: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_name, "connect.version": 1, "connect.name": name, **more}


def decimal_type(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    more = {"logicalType": "decimal", "precision": precision, "scale": scale}
    return named("bytes", f"{CONNECT}Decimal", **{"connect.parameters": parameters}, **more)


VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": f"{DEBEZIUM}data.VariableScaleDecimal",
}
POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "y", "type": "double"},
        {"name": "wkb", "type": ["null", "bytes"], "default": None},
        {"name": "srid", "type": ["null", "int"], "default": None},
    ],
    "connect.name": f"{DEBEZIUM}data.geometry.Point",
}
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())


def variable(number: int, scale: int) -> dict[str, Any]:
    return {"scale": scale, "value": number.to_bytes(16, "big", signed=True)}


def plain(avro_type: Any) -> Any:
    """Return a type without its logical type, so that the raw value is encoded."""
    if isinstance(avro_type, Mapping):
        return {name: each for name, each in avro_type.items() if name != "logicalType"}
    return avro_type


def read(avro_type: Any, column_type: str, value: Any) -> Any:
    """Return the value of a nullable column, or the reason of the dead letter."""
    writer = record_schema(x=["null", avro_type])
    (encoded,) = encode_records(record_schema(x=["null", plain(avro_type)]), {"x": value})
    columns = avro_format(f"x {column_type}", registry={1: writer})
    reader = AvroReader(columns.reader, None, columns.registry)
    records, reasons = reader.read(pa.array([b"\0\0\0\0\1" + encoded], pa.binary()))
    records.validate(full=True)
    reason = reasons[0].as_py()
    return reason if reason is not None else records[0].as_py()["x"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("avro_type", "column_type", "value", "expected"),
    [
        (named("int", f"{DEBEZIUM}time.Date"), "DATE", 1, date(1970, 1, 2)),
        (named("int", f"{CONNECT}Date", logicalType="date"), "DATE", 1, date(1970, 1, 2)),
        (named("string", f"{DEBEZIUM}time.IsoDate"), "DATE", "2026-03-02Z", date(2026, 3, 2)),
        (named("long", f"{DEBEZIUM}time.Timestamp"), "TIMESTAMP", SECONDS * 1_000, NOON),
        (named("long", f"{DEBEZIUM}time.MicroTimestamp"), "TIMESTAMP", SECONDS * 10**6, NOON),
        (
            named("long", f"{DEBEZIUM}time.NanoTimestamp"),
            "TIMESTAMP_NTZ",
            SECONDS * 10**9 + 999,
            NOON.replace(tzinfo=None),
        ),
        (
            named("long", f"{CONNECT}Timestamp", logicalType="timestamp-millis"),
            "TIMESTAMP_NTZ",
            SECONDS * 1_000,
            NOON.replace(tzinfo=None),
        ),
        (
            named("string", f"{DEBEZIUM}time.ZonedTimestamp"),
            "TIMESTAMP",
            "2026-03-02T13:00:00.000000001+01:00",
            NOON,
        ),
        (named("string", f"{DEBEZIUM}time.ZonedTimestamp"), "STRING", "infinity", "infinity"),
        (named("string", f"{DEBEZIUM}time.ZonedTime"), "STRING", "12:00:00Z", "12:00:00Z"),
        (named("long", f"{DEBEZIUM}time.MicroTime"), "BIGINT", 5, 5),
        (named("int", f"{DEBEZIUM}time.Time"), "INT", 5, 5),
        (named("int", f"{CONNECT}Time", logicalType="time-millis"), "INT", 5, 5),
        (named("long", f"{DEBEZIUM}time.MicroDuration"), "BIGINT", 5, 5),
        (named("string", f"{DEBEZIUM}time.Interval"), "STRING", "P1Y", "P1Y"),
        (named("string", f"{DEBEZIUM}data.Json"), "STRING", '{"a":1}', '{"a":1}'),
        (named("string", f"{DEBEZIUM}data.Uuid"), "STRING", "no uuid", "no uuid"),
        (named("string", f"{DEBEZIUM}data.Enum"), "STRING", "a", "a"),
        (named("string", f"{DEBEZIUM}data.EnumSet"), "STRING", "a,b", "a,b"),
        (named("bytes", f"{DEBEZIUM}data.Bits"), "BINARY", b"\x05", b"\x05"),
        (POINT, "STRUCT<y: DOUBLE, x: DOUBLE>", {"x": 1.0, "y": 2.0}, {"y": 2.0, "x": 1.0}),
        (decimal_type(64, 2), "DECIMAL(10, 2)", b"\x03\x16", Decimal("7.90")),
        (decimal_type(10, 2), "DECIMAL(12, 4)", b"\xff\x7f", Decimal("-1.2900")),
        (decimal_type(10, 2), "DOUBLE", b"\x03\x16", 7.9),
        (decimal_type(10, 8), "STRING", b"\x01", "0.00000001"),
        (VARIABLE, "DECIMAL(12, 4)", variable(12345, 3), Decimal("12.3450")),
        (VARIABLE, "DECIMAL(12, 0)", variable(-12, -3), Decimal(-12000)),
        (VARIABLE, "DOUBLE", variable(12345, 3), 12.345),
        (VARIABLE, "STRUCT<scale: INT>", variable(1, 3), {"scale": 3}),
        ("string", "DECIMAL(10, 2)", "7.9", Decimal("7.90")),
        ("double", "DECIMAL(30, 2)", 1e20, Decimal(10**20)),
        ("double", "DOUBLE", float("-inf"), float("-inf")),
    ],
)
def test_a_logical_type_is_decoded_into_its_column(
    avro_type: Any, column_type: str, value: Any, expected: Any
) -> None:
    assert read(avro_type, column_type, value) == expected
    assert read(avro_type, column_type, None) is None


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("avro_type", "column_type", "value", "reason"),
    [
        (
            named("long", f"{DEBEZIUM}time.MicroTimestamp"),
            "TIMESTAMP",
            9_223_372_036_825_200_000,
            "not finite: x = infinity",
        ),
        (
            named("long", f"{DEBEZIUM}time.NanoTimestamp"),
            "TIMESTAMP",
            -(2**63),
            "not finite: x = -infinity",
        ),
        (
            named("string", f"{DEBEZIUM}time.ZonedTimestamp"),
            "TIMESTAMP",
            "infinity",
            "not finite: x = infinity",
        ),
        (
            named("string", f"{DEBEZIUM}time.IsoTimestamp"),
            "TIMESTAMP_NTZ",
            "+294247-01-10T04:00:25.2Z",
            "not finite: x = infinity",
        ),
        (
            named("string", f"{DEBEZIUM}time.IsoDate"),
            "DATE",
            "+10000-01-01Z",
            "out of range: x = +10000-01-01Z",
        ),
        (named("string", f"{DEBEZIUM}time.IsoDate"), "DATE", "today", "wrong type: x"),
        (named("int", f"{DEBEZIUM}time.Date"), "DATE", 2**31 - 1, f"out of range: x = {2**31 - 1}"),
        ("string", "DECIMAL(10, 2)", "NAN", "not finite: x = NAN"),
        ("double", "DECIMAL(10, 2)", float("nan"), "not finite: x = NaN"),
        ("string", "DECIMAL(10, 2)", "7.901", "out of range: x = 7.901"),
        ("string", "DECIMAL(10, 2)", "seven", "wrong type: x"),
        (decimal_type(10, 3), "DECIMAL(10, 2)", b"\x01", "out of range: x = 0.001"),
        (decimal_type(64, 2), "DECIMAL(10, 2)", b"\x01" * 20, "wrong type: x"),
        (VARIABLE, "DECIMAL(12, 2)", variable(1, 3), "out of range: x = 0.001"),
    ],
)
def test_a_value_that_its_column_cannot_store_has_a_reason(
    avro_type: Any, column_type: str, value: Any, reason: str
) -> None:
    assert read(avro_type, column_type, value) == reason


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("avro_type", "column_type", "value"),
    [
        ("string", "TIMESTAMP", "2026-03-02T13:00:00Z"),
        ("long", "TIMESTAMP", 1),
        (named("long", f"{DEBEZIUM}time.MicroTime"), "TIMESTAMP", 1),
        (decimal_type(10, 2), "BINARY", b"\x01"),
    ],
)
def test_a_type_without_a_rule_is_incompatible(
    avro_type: Any, column_type: str, value: Any
) -> None:
    assert read(avro_type, column_type, value).startswith("incompatible schema 1: x is ")


def test_a_variable_decimal_with_other_fields_is_incompatible() -> None:
    broken = json.loads(json.dumps(VARIABLE).replace('"scale"', '"digits"'))
    found = read(broken, "DECIMAL(10, 2)", {"digits": 1, "value": b"\1"})
    assert found.startswith("incompatible schema 1: ")


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "change-data-capture.md"
AVRO_TYPES = {"INT32": "int", "INT64": "long", "FLOAT64": "double"}


def page_rows(first_header: str) -> list[list[str]]:
    """Return the cells of the table of the page with this first header, without backticks."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    assert any(line.startswith(f"| {first_header} |") for line in lines)
    next(lines)
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def unquoted(cell: str) -> str:
    return cell.strip("` ")


def as_text(value: Any) -> Any:
    """Return a value as the page spells it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    if isinstance(value, dict):
        inner = {
            name: each.hex() if isinstance(each, bytes) else each for name, each in value.items()
        }
        return json.dumps(inner)
    return json.dumps(value) if isinstance(value, bool | list) else str(value)


def from_json_part(declared: dict[str, Any], column_type: str, value: Any) -> Any:
    """Return the value of a column of a record with a schema part, or the reason."""
    row = {"type": "struct", "field": "after", "fields": [{"field": "x", **declared}]}
    part = {"type": "struct", "fields": [row]}
    record = json.dumps({"schema": part, "payload": {"after": {"x": value}}}).encode()
    schema = StructType().add("after", StructType.fromDDL(f"x {column_type}"))
    reader = ConnectJsonReader(schema, Encodings())
    records, reasons, _ = reader.read(pa.array([record], pa.binary()))
    reason = reasons[0].as_py()
    return reason if reason is not None else records[0].as_py()["after"]["x"]


def struct_fields(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the Connect types of the fields of a struct."""
    bytes_fields = {"value", "wkb"}
    types = {int: "INT32", float: "FLOAT64", str: "STRING"}
    return [
        (name, "BYTES" if name in bytes_fields else types[type(inner)])
        for name, inner in value.items()
    ]


def avro_type_of(literal: str) -> str:
    return AVRO_TYPES.get(literal, literal.lower())


def to_avro(literal: str, value: Any) -> Any:
    if literal == "STRUCT":
        return {name: to_avro(kind, value[name]) for name, kind in struct_fields(value)}
    return base64.b64decode(value) if literal == "BYTES" else value


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("cells", page_rows("semantic type"), ids=lambda cells: cells[0])
def test_the_page_says_what_each_type_becomes_in_json_and_in_avro(cells: list[str]) -> None:
    semantic, literal, example, column_type, stored = (unquoted(cell) for cell in cells)
    value = json.loads(example)
    name, _, scale = semantic.replace("`", "").partition(", scale ")
    is_logical = name.startswith((DEBEZIUM, CONNECT))
    attributes = {"connect.name": name} if is_logical else {}
    declared: dict[str, Any] = {"type": literal.lower()} | ({"name": name} if is_logical else {})
    avro_type: dict[str, Any] = {"type": avro_type_of(literal), **attributes}
    if literal.startswith("FLOAT"):
        declared["type"] = "double"
    if scale:
        declared["parameters"] = {"scale": scale}
        avro_type = decimal_type(64, int(scale))
    elif literal == "STRUCT":
        fields = struct_fields(value)
        declared["fields"] = [
            {"field": field, "type": kind.lower().replace("float64", "double")}
            for field, kind in fields
        ]
        avro_fields = [{"name": field, "type": avro_type_of(kind)} for field, kind in fields]
        avro_type |= {"type": "record", "name": name, "fields": avro_fields}
    elif literal == "ARRAY":
        declared["items"] = {"type": "double"}
        avro_type["items"] = "double"
    assert as_text(from_json_part(declared, column_type, value)) == stored
    assert as_text(read(avro_type, column_type, to_avro(literal, value))) == stored


@pytest.mark.parametrize("cells", page_rows("value"), ids=lambda cells: cells[0])
def test_the_page_says_what_becomes_of_values_that_are_not_finite(cells: list[str]) -> None:
    _, connector, sent, column_type, stored = (unquoted(cell) for cell in cells)
    value = json.loads(sent)
    declared: dict[str, Any] = {"type": "string"}
    if isinstance(value, int):
        name = "NanoTimestamp" if "nano" in connector else "MicroTimestamp"
        declared = {"type": "int64", "name": f"{DEBEZIUM}time.{name}"}
    elif "mode=double" in connector or (value == "Infinity"):
        declared = {"type": "double"}
    assert as_text(from_json_part(declared, column_type, value)) == stored
