"""Kafka Connect's logical types in Avro become values of the declared columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.support.avro_corpus import encode_records, record_schema
from tidegate.formats import avro_format
from tidegate.formats.avro._avro_format import AvroReader

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
