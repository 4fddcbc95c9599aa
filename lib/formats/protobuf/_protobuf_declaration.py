"""The declaration of a registered message in Kafka Connect's types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from .._connect_types import (
    CONNECT_TIME_NAME,
    CONNECT_TIMESTAMP_NAME,
    DATE_NAME,
    DECIMAL_NAME,
    VARIABLE_DECIMAL_NAME,
)
from ..registered_schemas import RegisteredSchema
from ._proto_text import (
    DATE,
    DECIMAL,
    TIME_OF_DAY,
    VARIABLE_DECIMAL,
    WRAPPERS,
    ProtoTextError,
    declared_types,
    parse_registered,
)
from ._protobuf_schema import TIMESTAMP

_CONNECT_TYPES = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int32"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), "int64"),
    "float": "float32",
    "double": "float64",
    "bool": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
}
_VALUES: Mapping[str, Mapping[str, Any]] = {
    f".{DATE}": {"type": "int32", "name": DATE_NAME},
    f".{TIME_OF_DAY}": {"type": "int32", "name": CONNECT_TIME_NAME},
    f".{TIMESTAMP}": {"type": "int64", "name": CONNECT_TIMESTAMP_NAME},
}
"""The declarations of the messages that are single values."""
_PARAMETERS = {"scale": "scale", "precision": "connect.decimal.precision"}
_PARAMETER = re.compile(r"\{([^{}]*)\}")
"""A parameter of the option confluent.field_meta: {key: "scale", value: "2"}, in any order."""
_KEY, _VALUE = re.compile(r'key : "(\w+)"'), re.compile(r'value : "(-?\d+)"')


def protobuf_declaration(schema: RegisteredSchema) -> str | None:
    """Return the first message of a schema as Kafka Connect's JSON converter declares its type.

    Returns None for schemas without a message, whose records cannot be decoded.

    >>> text = 'syntax = "proto3"; message Key { int32 id = 1; }'
    >>> json.loads(protobuf_declaration(RegisteredSchema(text, "PROTOBUF")))["fields"]
    [{'type': 'int32', 'field': 'id'}]
    """
    if schema.schema_type != "PROTOBUF":
        return None
    try:
        files = parse_registered(schema)
    except ProtoTextError:
        return None
    if not files[0].message_type:
        return None
    messages = {
        name: each
        for name, each in declared_types(files).items()
        if isinstance(each, DescriptorProto)
    }
    first = files[0].message_type[0].name
    name = f"{files[0].package}.{first}" if files[0].package else first
    return json.dumps(_Declarations(messages).declare_message(f".{name}", ()))


@dataclass(frozen=True)
class _Declarations:
    """Declares messages by their full names, each of which begins with a dot."""

    messages: Mapping[str, DescriptorProto]

    def declare_message(self, name: str, parents: tuple[str, ...]) -> Mapping[str, Any]:
        if name in parents or name not in self.messages:
            # A column of such a type is refused by its name.
            return {"type": name.removeprefix(".")}
        fields = [
            {**self._declare_field(each, (*parents, name)), "field": each.name}
            for each in self.messages[name].field
        ]
        return {"type": "struct", "name": name.removeprefix("."), "fields": fields}

    def _declare_field(
        self, field: FieldDescriptorProto, parents: tuple[str, ...]
    ) -> Mapping[str, Any]:
        is_map = field.type_name in self.messages and (
            self.messages[field.type_name].options.map_entry
        )
        if is_map:
            return {"type": "map"}
        value = self._declare_value(field, parents)
        is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
        return {"type": "array", "items": value} if is_repeated else value

    def _declare_value(
        self, field: FieldDescriptorProto, parents: tuple[str, ...]
    ) -> Mapping[str, Any]:
        name = field.type_name
        if field.type != FieldDescriptorProto.TYPE_MESSAGE:
            kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
            return {"type": _CONNECT_TYPES.get(kind, kind)}
        if name in _VALUES:
            return _VALUES[name]
        if name == f".{DECIMAL}":
            return {"type": "bytes", "name": DECIMAL_NAME, "parameters": _decimal_parameters(field)}
        if name.removeprefix(".google.protobuf.") in WRAPPERS:
            return self._declare_value(self.messages[name].field[0], parents)
        declared = self.declare_message(name, parents)
        is_variable = name.rpartition(".")[2] == VARIABLE_DECIMAL
        return {**declared, "name": VARIABLE_DECIMAL_NAME} if is_variable else declared


def _decimal_parameters(field: FieldDescriptorProto) -> Mapping[str, str]:
    """Return the scale and the precision in the options of a field, as Kafka Connect names them."""
    options = " ".join(each.aggregate_value for each in field.options.uninterpreted_option)
    pairs = [(_KEY.search(part), _VALUE.search(part)) for part in _PARAMETER.findall(options)]
    written = {key[1]: value[1] for key, value in pairs if key and value}
    return {_PARAMETERS[name]: written[name] for name in _PARAMETERS if name in written}
