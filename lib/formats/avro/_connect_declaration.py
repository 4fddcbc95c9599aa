"""The declaration of an Avro schema in Kafka Connect's types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .._connect_types import DATE_NAME, DECIMAL_NAME, MICRO_TIMESTAMP_NAME, ZONED_TIMESTAMP_NAME
from ..registered_schemas import RegisteredSchema
from ._avro_schema import LOCAL, MICROS, MILLIS, NANOS, AvroType, SchemaError, parse_schema
from ._avro_types import without_null

_CONNECT_TYPES = {
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
}
_NAMES = {
    "date": DATE_NAME,
    "decimal": DECIMAL_NAME,
    **dict.fromkeys((MILLIS, MICROS, NANOS), ZONED_TIMESTAMP_NAME),
    **dict.fromkeys((LOCAL + MILLIS, LOCAL + MICROS, LOCAL + NANOS), MICRO_TIMESTAMP_NAME),
}
"""Kafka Connect's types with the column type of Avro's logical types."""


def connect_declaration(schema: RegisteredSchema) -> str | None:
    """Return an Avro schema as Kafka Connect's JSON converter declares the same type.

    The logical type is that of Kafka Connect, the attribute `connect.name`, or else that of Avro.
    Returns None for schemas that are not valid Avro schemas, whose records cannot be decoded.

    >>> text = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}'
    >>> json.loads(connect_declaration(RegisteredSchema(text)))["fields"]
    [{'type': 'int32', 'field': 'id'}]
    """
    if schema.schema_type != "AVRO":
        return None
    try:
        return json.dumps(_declare(parse_schema(schema.text, schema.references)))
    except SchemaError:
        return None


def _declare(avro_type: AvroType) -> Mapping[str, Any]:
    try:
        value_type = without_null(avro_type)
    except SchemaError:
        # A column of such a type is refused by its name.
        return {"type": str(avro_type)}
    return {**_declare_type(value_type), **_declare_logical_type(value_type)}


def _declare_type(avro_type: AvroType) -> Mapping[str, Any]:
    if avro_type.type_name == "record":
        fields = [{**_declare(field.type), "field": field.name} for field in avro_type.fields]
        return {"type": "struct", "fields": fields}
    if avro_type.type_name == "array":
        return {"type": "array", "items": _declare(avro_type.element_type)}
    return {"type": _CONNECT_TYPES.get(avro_type.type_name, str(avro_type))}


def _declare_logical_type(avro_type: AvroType) -> Mapping[str, Any]:
    parameters = dict(avro_type.connect_parameters or {})
    if avro_type.logical == "decimal":
        parameters = {"scale": avro_type.scale, **parameters}
    if avro_type.connect is None and avro_type.logical in _NAMES:
        precision = {"connect.decimal.precision": avro_type.precision}
        return {"name": _NAMES[avro_type.logical], "parameters": {**precision, **parameters}}
    if avro_type.connect_name is None:
        return {}
    return {"name": avro_type.connect_name, "parameters": parameters}
