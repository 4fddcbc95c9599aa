"""The columns of a source table from the schema part of its records, as Kafka Connect writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import ColumnTypeError
from ._connect_types import (
    DAYS,
    DECIMAL,
    NANOS_PER_UNIT,
    VARIABLE_DECIMAL,
    ZONED_TIMESTAMP_NAME,
    kind_of,
)

_TYPES: Mapping[str, DataType] = {
    "boolean": BooleanType(),
    "int8": IntegerType(),
    "int16": IntegerType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "float32": FloatType(),
    "double": DoubleType(),
    "float64": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
}
_MAX_PRECISION = 38
_ADDED_FIELD = "__"
"""The prefix of the fields that ExtractNewRecordState adds to a row."""


def row_columns(schema_part: str, *, is_flat: bool = False) -> StructType | None:
    """Return the columns of the row in a record with this schema part; None if it has no row.

    is_flat: whether ExtractNewRecordState has taken the row out of its envelope.

    Raises ColumnTypeError for a column of a type that a change cannot have.

    >>> field = {"type": "int32", "field": "id"}
    >>> envelope = {"fields": [{"type": "struct", "field": "after", "fields": [field]}]}
    >>> row_columns(json.dumps(envelope)).simpleString()
    'struct<id:int>'
    """
    fields = _fields(_parse(schema_part))
    if not is_flat:
        envelope = {field.get("field"): field for field in fields}
        fields = _fields(envelope.get("after"))
    columns = [field for field in fields if not (is_flat and _is_added(field))]
    return _struct_type(columns) if columns else None


def schema_name(schema_part: str) -> str:
    """Return the name of a schema; empty text without one."""
    declaration = _parse(schema_part)
    return str(declaration.get("name") or "") if isinstance(declaration, Mapping) else ""


def key_columns(schema_part: str) -> list[str]:
    """Return the columns of the key of a record with this schema part; empty without any.

    >>> key_columns('{"type": "struct", "fields": [{"type": "int32", "field": "id"}]}')
    ['id']
    """
    return [str(field.get("field")) for field in _fields(_parse(schema_part))]


def _parse(schema_part: str) -> Any:
    try:
        return json.loads(schema_part)
    except (ValueError, RecursionError):
        return None


def _fields(declaration: Any) -> list[Mapping[str, Any]]:
    fields = declaration.get("fields") if isinstance(declaration, Mapping) else None
    return [each for each in fields or () if isinstance(each, Mapping)]


def _is_added(field: Mapping[str, Any]) -> bool:
    return str(field.get("field")).startswith(_ADDED_FIELD)


def _struct_type(fields: list[Mapping[str, Any]]) -> StructType:
    return StructType(
        [
            StructField(str(field.get("field")), _column_type(str(field.get("field")), field))
            for field in fields
        ]
    )


def _column_type(name: str, declaration: Mapping[str, Any]) -> DataType:
    connect_type, parameters = declaration.get("type"), declaration.get("parameters")
    kind = kind_of(declaration.get("name"), parameters) or ""
    if kind.startswith(DECIMAL):
        return _decimal_type(name, parameters)
    if kind == VARIABLE_DECIMAL:
        # Each value has its own scale.
        return StringType()
    if kind == DAYS:
        return DateType()
    if declaration.get("name") == ZONED_TIMESTAMP_NAME:
        return TimestampType()
    if kind in NANOS_PER_UNIT:
        return TimestampNTZType()
    if connect_type == "array" and isinstance(declaration.get("items"), Mapping):
        return ArrayType(_column_type(name, declaration["items"]))
    if connect_type == "struct":
        return _struct_type(_fields(declaration))
    data_type = _TYPES.get(str(connect_type))
    if data_type is None:
        raise ColumnTypeError(
            f"invalid type of column {name!r}: {connect_type!r}",
            "any type of Kafka Connect except maps",
            "declare the columns of the table, or exclude the column from the connector",
        )
    return data_type


def _decimal_type(name: str, parameters: Any) -> DataType:
    """Return DECIMAL with the precision of the source column; text if that is too large."""
    values = parameters if isinstance(parameters, Mapping) else {}
    try:
        scale = int(values.get("scale", 0))
        precision = int(values.get("connect.decimal.precision", _MAX_PRECISION))
    except (TypeError, ValueError):
        raise ColumnTypeError(
            f"invalid type of column {name!r}: a decimal with the parameters {parameters}",
            "numbers as scale and connect.decimal.precision",
        ) from None
    if not 0 <= scale <= precision <= _MAX_PRECISION:
        return StringType()
    return DecimalType(precision, scale)
