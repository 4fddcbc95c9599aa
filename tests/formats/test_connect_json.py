"""Connect's JSON is read in batches as it is read value by value."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.formats._arrow.arrow_types import to_arrow_type
from tidegate.formats._casts import nullable_type
from tidegate.formats.connect_json._reader import ConnectJsonReader
from tidegate.formats.connect_json._values import (
    Encodings,
    UndecodableError,
    ValueReader,
    parse_object,
    value_kinds,
)

PLACEHOLDER = "__debezium_unavailable_value"
ROW = (
    StructType()
    .add("id", LongType(), nullable=False)
    .add("credit", DecimalType(10, 2))
    .add("wide", DecimalType(38, 4))
    .add("free", DecimalType(20, 3))
    .add("day", DateType())
    .add("at", TimestampType())
    .add("local", TimestampNTZType())
    .add("zoned", TimestampType())
    .add("photo", BinaryType())
    .add("ratio", DoubleType())
    .add("cost", DoubleType())
    .add("rate", FloatType())
    .add("total", StringType())
    .add("tags", ArrayType(StringType()))
    .add("scores", ArrayType(IntegerType()))
    .add("days", ArrayType(DateType()))
    .add("name", StringType())
)
SCHEMA = StructType().add("op", "string").add("before", ROW).add("after", ROW).add("ts_ms", "long")


def logical(type_name: str, name: str, **parameters: str) -> dict[str, Any]:
    declared: dict[str, Any] = {"type": type_name, "optional": True, "name": name}
    return {**declared, "parameters": parameters} if parameters else declared


def decimal_field(scale: int) -> dict[str, Any]:
    return logical("bytes", "org.apache.kafka.connect.data.Decimal", scale=str(scale))


FIELDS: dict[str, dict[str, Any]] = {
    "id": {"type": "int64"},
    "credit": decimal_field(2),
    "wide": decimal_field(4),
    "free": logical("struct", "io.debezium.data.VariableScaleDecimal"),
    "day": logical("int32", "io.debezium.time.Date"),
    "at": logical("int64", "io.debezium.time.MicroTimestamp"),
    "local": logical("int64", "io.debezium.time.NanoTimestamp"),
    "zoned": logical("string", "io.debezium.time.ZonedTimestamp"),
    "photo": {"type": "bytes"},
    "ratio": {"type": "double"},
    "cost": decimal_field(2),
    "rate": {"type": "string"},
    "total": decimal_field(8),
    "tags": {"type": "array", "items": {"type": "string"}},
    "scores": {"type": "array", "items": {"type": "int32"}},
    "days": {"type": "array", "items": logical("int32", "io.debezium.time.Date")},
    "name": {"type": "string"},
}
ROW_FIELDS = [{"field": name, **declared} for name, declared in FIELDS.items()]
DECLARATION = {
    "type": "struct",
    "fields": [
        {"field": "before", "type": "struct", "fields": ROW_FIELDS},
        {"field": "after", "type": "struct", "fields": ROW_FIELDS},
        {"field": "op", "type": "string"},
    ],
}


def unscaled(number: int) -> str:
    length = max(1, (number.bit_length() + 8) // 8)
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def wrapped(payload: Any, *, spaced: bool = False) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    value = {"schema": DECLARATION, "payload": payload}
    return json.dumps(value, separators=separators).encode()


def event(after: Any) -> dict[str, Any]:
    return {"before": None, "after": after, "op": "u", "ts_ms": 1}


def by_value(value: bytes | None, encodings: Encodings, *, has_schema: bool) -> Any:
    """Return the record and the paths of its placeholders, or the reason, read by itself."""
    kinds = dict(value_kinds(DECLARATION, SCHEMA)) if has_schema else None
    paths: list[str] = []
    try:
        if value is None:
            raise UndecodableError("null value")
        parsed = parse_object(value)
        record = ValueReader(kinds, encodings, paths).read(
            parsed["payload"] if has_schema else parsed, SCHEMA
        )
    except UndecodableError as fault:
        return str(fault)
    typed = pa.array([record], to_arrow_type(nullable_type(SCHEMA)))
    return typed.to_pylist()[0], paths or None


def in_batch(values: list[bytes | None], encodings: Encodings) -> list[Any]:
    arrays = ConnectJsonReader(SCHEMA, encodings).read(pa.array(values, pa.binary()))
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [reason if record is None else (record, paths) for record, reason, paths in rows]


TIMES = ["2026-03-02T09:00:00Z", "2026-03-02T09:00:00.123456789+05:30", "infinity", "2026-03-02"]
NOT_FINITE = ["NaN", "NAN", "POSITIVE_INFINITY", "-Infinity"]
NUMBERS = [0, 1, -1, 127, 128, -128, -129, 255, 10**9, -(10**17), 10**36, -(10**38), 2**127 - 1]
BYTES = [b"", b"\x00", b"\xff\x00", PLACEHOLDER.encode(), b"x" * 17]


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Return JSON values of a column: right ones in all encodings, and wrong ones."""
    texts = st.sampled_from(
        ["", "a", "1234", "-5.5", "AxY=", "Info", "é", "\ud800", PLACEHOLDER, *NOT_FINITE]
    )
    integers = st.sampled_from([*NUMBERS, 1_772_442_000_000_123, 19_000, 2**63 - 1])
    decimals = st.sampled_from(NUMBERS).map(unscaled)
    contents = st.sampled_from(BYTES).map(lambda content: base64.b64encode(content).decode())
    variable = st.builds(
        lambda scale, value: {"scale": scale, "value": value}, st.integers(-40, 40), decimals
    )
    lists = st.lists(st.one_of(texts, integers, st.none()), max_size=3)
    bytes_of = st.just([*PLACEHOLDER.encode()])
    anything = st.one_of(
        st.none(),
        texts,
        integers,
        st.sampled_from([1.5, 1e300, -0.0, True, {"a": 1.10}]),
        decimals,
        contents,
        variable,
        lists,
        bytes_of,
        st.sampled_from(TIMES),
    )
    usual = {"free": variable, "photo": contents}
    usual |= dict.fromkeys(("credit", "wide", "cost", "total"), decimals)
    return st.one_of(usual.get(name, anything), anything, st.none())


ROWS = st.fixed_dictionaries({}, optional={name: values_of(name) for name in FIELDS})
ENCODINGS = [
    Encodings(),
    Encodings("precise", "milliseconds", PLACEHOLDER),
    Encodings("string", "nanoseconds", PLACEHOLDER),
    Encodings("double", "microseconds"),
]


@pytest.mark.parametrize("encodings", ENCODINGS, ids=lambda each: str(each.decimals))
@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=6),
    shape=st.sampled_from(["compact", "spaced", "plain"]),
)
@example(rows=[{"ratio": "NaN"}], shape="compact")
def test_a_batch_is_read_as_each_of_its_values(
    encodings: Encodings, rows: list[dict[str, Any]], shape: str
) -> None:
    rows = [{"id": number, **row} for number, row in enumerate(rows)]
    if shape == "plain":
        values: list[bytes | None] = [json.dumps(event(row)).encode() for row in rows]
    else:
        values = [wrapped(event(row), spaced=shape == "spaced") for row in rows]
    values += [None, b"", b"[]", b"{", b"\xff"]
    has_schema = shape != "plain"
    expected = [
        by_value(value, encodings, has_schema=has_schema and number < len(rows))
        for number, value in enumerate(values)
    ]
    # As texts, since NaN is not equal to itself.
    assert repr(in_batch(values, encodings)) == repr(expected)


def after(row: dict[str, Any], encodings: Encodings | None = None, **more: Any) -> dict[str, Any]:
    """Return the columns of a row that are not null, with a schema part or without."""
    value = wrapped(event({"id": 1, **row})) if encodings is None else None
    value = value or json.dumps(event({"id": 1, **row})).encode()
    (found,) = in_batch([value], encodings or Encodings())
    assert not isinstance(found, str), found
    return {name: each for name, each in found[0]["after"].items() if each is not None}


def test_logical_types_are_decoded_by_the_schema_part() -> None:
    assert after(
        {
            "credit": unscaled(-2658824),
            "wide": unscaled(10**37),
            "free": {"scale": 3, "value": unscaled(12345)},
            "day": 19_000,
            "at": 1_772_442_000_000_123,
            "local": 1_772_442_000_000_123_999,
            "zoned": "2026-03-02T09:00:00.5+01:00",
            "photo": "/wA=",
            "days": [0, 1],
            "cost": unscaled(-2658824),
            "rate": "1.5",
            "total": unscaled(1),
        }
    ) == {
        "id": 1,
        "credit": Decimal("-26588.24"),
        "wide": Decimal(f"{10**33}.0000"),
        "free": Decimal("12.345"),
        "day": date(2022, 1, 8),
        "at": datetime(2026, 3, 2, 9, 0, 0, 123, tzinfo=UTC),
        "local": datetime(2026, 3, 2, 9, 0, 0, 123),
        "zoned": datetime(2026, 3, 2, 8, 0, 0, 500_000, tzinfo=UTC),
        "photo": b"\xff\x00",
        "days": [date(1970, 1, 1), date(1970, 1, 2)],
        "cost": -26588.24,
        "rate": 1.5,
        "total": "0.00000001",
    }


@pytest.mark.parametrize(
    ("encodings", "text", "expected"),
    [
        (Encodings("precise"), "1234", Decimal("-26588.24")),
        (Encodings("string"), "1234", Decimal("1234.00")),
        (Encodings(), "1234.5", Decimal("1234.50")),
    ],
)
def test_an_option_decodes_decimals_without_a_schema_part(
    encodings: Encodings, text: str, expected: Decimal
) -> None:
    assert after({"credit": text}, encodings)["credit"] == expected


def test_a_double_that_is_not_finite_is_read_where_decimals_are_bytes() -> None:
    assert math.isnan(after({"rate": "NaN"}, Encodings("precise"))["rate"])
    assert after({"rate": "-Infinity"}, Encodings("precise"))["rate"] == -math.inf


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"credit": "1234"}, "encoding not known: after.credit; set decimals to "),
        ({"at": 1_772_442_000_000}, "unit not known: after.at; set timestamps to one of "),
        ({"day": "today"}, "wrong type: after.day"),
        ({"id": None}, "missing field: after.id"),
        ({"name": "\ud800"}, "lone surrogate: after.name"),
    ],
)
def test_values_that_could_be_read_in_two_ways_have_a_reason(
    row: dict[str, Any], reason: str
) -> None:
    (found,) = in_batch([json.dumps(event({"id": 1, **row})).encode()], Encodings())
    assert found.startswith(reason)


def fault(row: dict[str, Any], encodings: Encodings | None) -> str:
    """Return the reason of a record with a schema part, or of one in the encodings."""
    row = {"id": 1, **row}
    value = wrapped(event(row)) if encodings is None else json.dumps(event(row)).encode()
    (found,) = in_batch([value], encodings or Encodings())
    assert isinstance(found, str), found
    return found


@pytest.mark.parametrize(
    ("row", "encodings", "reason"),
    [
        ({"at": 9_223_372_036_825_200_000}, None, "not finite: after.at = infinity"),
        ({"at": -9_223_372_036_832_400_000}, None, "not finite: after.at = -infinity"),
        ({"local": 2**63 - 1}, None, "not finite: after.local = infinity"),
        ({"local": -(2**63)}, None, "not finite: after.local = -infinity"),
        ({"zoned": "-infinity"}, None, "not finite: after.zoned = -infinity"),
        ({"at": 2**63 - 1}, "nanoseconds", "not finite: after.at = infinity"),
        ({"at": 9_223_372_036_825_200}, "milliseconds", "not finite: after.at = infinity"),
        ({"at": "infinity"}, "milliseconds", "not finite: after.at = infinity"),
        (
            {"at": "-290308-12-21T19:59:27.6Z"},
            "milliseconds",
            "not finite: after.at = -infinity",
        ),
        (
            {"zoned": "+10000-01-01T00:00:00.000000Z"},
            None,
            "out of range: after.zoned = +10000-01-01T00:00:00.000000Z",
        ),
        (
            {"zoned": "0000-02-29T00:00:00Z"},
            None,
            "out of range: after.zoned = 0000-02-29T00:00:00Z",
        ),
        ({"zoned": "2026-02-30T00:00:00Z"}, None, "wrong type: after.zoned"),
        ({"day": "-0043-03-15Z"}, "milliseconds", "out of range: after.day = -0043-03-15Z"),
        ({"day": "infinity"}, "milliseconds", "not finite: after.day = infinity"),
        ({"day": 2**31 - 1}, None, "out of range: after.day = 2147483647"),
        ({"day": -(2**31)}, "milliseconds", "out of range: after.day = -2147483648"),
        ({"at": 2**62}, None, "out of range: after.at = 4611686018427387904"),
        ({"at": 2**62}, "milliseconds", "out of range: after.at = 4611686018427387904"),
        ({"credit": "NAN"}, "milliseconds", "not finite: after.credit = NAN"),
        ({"credit": "Infinity"}, "milliseconds", "not finite: after.credit = Infinity"),
        ({"credit": unscaled(10**10)}, None, "out of range: after.credit = 100000000.00"),
        ({"credit": "0.001"}, "milliseconds", "out of range: after.credit = 0.001"),
        ({"rate": "1e39"}, None, "out of range: after.rate = 1e39"),
    ],
)
def test_a_number_or_time_that_its_column_cannot_store_has_a_reason_with_its_value(
    row: dict[str, Any], encodings: Any, reason: str
) -> None:
    without_schema = encodings and Encodings("string", encodings)
    assert fault(row, without_schema) == reason


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize(
    ("text", "number"), [("NaN", "nan"), ("NAN", "nan"), ("NEGATIVE_INFINITY", "-inf")]
)
def test_a_double_and_a_text_store_numbers_that_are_not_finite(
    has_schema: bool, text: str, number: str
) -> None:
    row = {"ratio": text, "rate": text, "name": text}
    found = after(row, None if has_schema else Encodings("string"))
    assert (str(found["ratio"]), str(found["rate"]), found["name"]) == (number, number, text)


def test_placeholders_are_null_and_named() -> None:
    encoded = base64.b64encode(PLACEHOLDER.encode()).decode()
    row = {
        "id": 1,
        "credit": encoded,
        "zoned": PLACEHOLDER,
        "photo": encoded,
        "tags": [PLACEHOLDER],
        "scores": [*PLACEHOLDER.encode()],
        "name": PLACEHOLDER,
    }
    (found,) = in_batch([wrapped(event(row))], Encodings(placeholder=PLACEHOLDER))
    record, paths = found
    assert {name for name, value in record["after"].items() if value is not None} == {"id"}
    assert paths == [
        f"after.{name}" for name in ("credit", "zoned", "photo", "tags", "scores", "name")
    ]
