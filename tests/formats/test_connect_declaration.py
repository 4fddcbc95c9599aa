"""The columns of a table are the same in Avro and in the schema part of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.formats.test_connect_types import page_rows, struct_fields, unquoted
from tests.support.avro_corpus import record_schema
from tests.support.connect_avro import avro_schema
from tidegate.errors import ColumnTypeError
from tidegate.formats.avro import connect_declaration
from tidegate.formats.connect_schema import key_columns, row_columns, schema_name
from tidegate.formats.registered_schemas import RegisteredSchema

CONNECT_TYPES = {"FLOAT64": "double", "FLOAT32": "float"}


def connect_type_of(literal: str) -> str:
    return CONNECT_TYPES.get(literal, literal.lower())


def page_declaration(cells: list[str]) -> dict[str, Any]:
    """Return the declaration of a type of the page, as the JSON converter writes it."""
    semantic, literal, example, *_ = (unquoted(cell) for cell in cells)
    name, _, scale = semantic.replace("`", "").partition(", scale ")
    declared: dict[str, Any] = {"type": connect_type_of(literal)}
    if name.startswith(("io.debezium.", "org.apache.")):
        declared |= {"name": name, "version": 1}
    if scale:
        declared["parameters"] = {"scale": scale, "connect.decimal.precision": "10"}
    if literal == "STRUCT":
        declared["fields"] = [
            {"field": field, "type": connect_type_of(kind), "optional": True}
            for field, kind in struct_fields(json.loads(example))
        ]
    if literal == "ARRAY":
        declared["items"] = {"type": "double", "optional": True}
    return declared


def envelope(*columns: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "struct", "name": "s.t.Value", "fields": list(columns), "optional": True}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}]
    return {"type": "struct", "name": "s.t.Envelope", "fields": fields}


def declaration(avro: Any, **references: str) -> str:
    found = connect_declaration(RegisteredSchema(json.dumps(avro), "AVRO", references))
    assert found is not None
    return found


@pytest.mark.parametrize("is_optional", [True, False])
@pytest.mark.parametrize("cells", page_rows("semantic type"), ids=lambda cells: cells[0])
def test_each_type_of_the_page_has_one_column_type(cells: list[str], is_optional: bool) -> None:
    declared = {**page_declaration(cells), "optional": is_optional}
    items = {"type": "array", "items": {**declared, "optional": True}, "optional": is_optional}
    part = envelope({**declared, "field": "x"}, {**declared, "field": "y"}, {**items, "field": "z"})
    expected = row_columns(json.dumps(part))
    assert expected is not None
    assert row_columns(declaration(avro_schema(part))) == expected
    row = part["fields"][0]
    assert row_columns(declaration(avro_schema(row)), is_flat=True) == expected


@pytest.mark.parametrize(
    ("parameters", "column_type"),
    [
        ({"scale": "2"}, "decimal(38,2)"),
        ({"scale": "3", "connect.decimal.precision": "12"}, "decimal(12,3)"),
        ({"scale": "3", "connect.decimal.precision": "50"}, "string"),
    ],
)
def test_the_precision_of_a_decimal_is_that_of_the_source(
    parameters: dict[str, str], column_type: str
) -> None:
    name = "org.apache.kafka.connect.data.Decimal"
    part = envelope({"type": "bytes", "name": name, "parameters": parameters, "field": "x"})
    for text in (json.dumps(part), declaration(avro_schema(part))):
        columns = row_columns(text)
        assert columns is not None
        assert columns["x"].dataType.simpleString() == column_type


@pytest.mark.parametrize(
    ("avro_type", "column_type"),
    [
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "date", "connect.name": "my.Day"}, "date"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}, "string"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 2}, "binary"),
        (["null", "float"], "float"),
        (["int", "null", "long"], "bigint"),
    ],
)
def test_a_type_without_a_name_of_connect_is_that_of_avro(avro_type: Any, column_type: str) -> None:
    columns = row_columns(declaration(json.loads(record_schema(x=avro_type))), is_flat=True)
    assert columns is not None
    assert columns["x"].dataType.simpleString() == column_type


def test_a_reference_to_another_schema_is_resolved() -> None:
    value = record_schema("Value", id="long")
    columns = row_columns(
        declaration(json.loads(record_schema("Envelope", after=["null", "Value"])), Value=value)
    )
    assert columns is not None
    assert columns.simpleString() == "struct<id:bigint>"


def test_a_key_and_the_name_of_a_schema() -> None:
    key: dict[str, Any] = {"type": "record", "name": "Key", "connect.name": "s.t.Key"}
    key |= {"fields": [{"name": "b", "type": "int"}, {"name": "a", "type": ["null", "string"]}]}
    assert key_columns(declaration(key)) == ["b", "a"]
    assert schema_name(declaration(key)) == "s.t.Key"
    assert key_columns(declaration("string")) == []


@pytest.mark.parametrize(
    "avro_type",
    [
        ["int", "string"],
        {"type": "map", "values": "int"},
        {"type": "record", "name": "Tree", "fields": [{"name": "t", "type": ["null", "Tree"]}]},
        "null",
        {
            "type": "bytes",
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"scale": "two"},
        },
    ],
)
def test_a_type_without_a_column_type_is_refused(avro_type: Any) -> None:
    text = declaration(json.loads(record_schema(x=avro_type)))
    with pytest.raises(ColumnTypeError, match=r"invalid type of column '[xt]'"):
        row_columns(text, is_flat=True)


@pytest.mark.parametrize(
    "schema",
    [
        RegisteredSchema("not JSON"),
        RegisteredSchema('{"type": "record"}'),
        RegisteredSchema('{"type": "object"}', "JSON"),
    ],
)
def test_a_schema_that_is_not_avro_has_no_declaration(schema: RegisteredSchema) -> None:
    assert connect_declaration(schema) is None
