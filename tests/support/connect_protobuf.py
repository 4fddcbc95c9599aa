"""Records of Kafka Connect's JSON converter, as Confluent's Protobuf converter writes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

from tests.support.registry_server import FakeRegistry

CONNECT = "org.apache.kafka.connect.data."
Nullables = Literal["plain", "optional", "wrapper"]
_FIELD = descriptor_pb2.FieldDescriptorProto
_PRIMITIVES = {
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float": "float",
    "double": "double",
    "boolean": "bool",
    "string": "string",
    "bytes": "bytes",
}
_WRAPPERS = {
    "int32": "Int32Value",
    "int64": "Int64Value",
    "float": "FloatValue",
    "double": "DoubleValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}
_LOGICAL_TYPES = {
    f"{CONNECT}Decimal": "confluent.type.Decimal",
    f"{CONNECT}Date": "google.type.Date",
    f"{CONNECT}Time": "google.type.TimeOfDay",
    f"{CONNECT}Timestamp": "google.protobuf.Timestamp",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _imported_files() -> list[descriptor_pb2.FileDescriptorProto]:
    """Return the descriptors of the files that a converter imports."""
    files = []
    for module in (timestamp_pb2, wrappers_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    parts: dict[str, list[tuple[str, str]]] = {
        "google.type.Date": [("year", "int32"), ("month", "int32"), ("day", "int32")],
        "google.type.TimeOfDay": [
            (name, "int32") for name in ("hours", "minutes", "seconds", "nanos")
        ],
        "confluent.type.Decimal": [("value", "bytes"), ("precision", "uint32"), ("scale", "int32")],
    }
    for full_name, fields in parts.items():
        package, _, name = full_name.rpartition(".")
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{full_name}.proto", package=package, syntax="proto3"
        )
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields, 1):
            _add_field(message, field_name, number, kind)
        files.append(file)
    return files


def _add_field(
    message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str, **more: Any
) -> None:
    """Add a field of a scalar type, or of a message whose full name begins with a dot."""
    added = message.field.add(name=name, number=number, **{"label": _FIELD.LABEL_OPTIONAL, **more})
    if kind in (*_PRIMITIVES.values(), "uint32"):
        added.type = _FIELD.Type.Value(f"TYPE_{kind.upper()}")
    else:
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, kind


@dataclass
class ProtobufConverter:
    """Converts records, and registers the schemas of a topic in a registry.

    nullables: how nullable fields are declared: by the properties optional.for.nullables or
        wrapper.for.nullables, or "plain" without both, where nulls become defaults.
    """

    registry: FakeRegistry
    nullables: Nullables = "optional"
    ids: dict[str, int] = field(default_factory=dict)
    _messages: dict[str, Any] = field(default_factory=dict)

    def convert(self, content: bytes | None, subject: str) -> bytes | None:
        """Return the record of a JSON record with its schema part; None for a tombstone."""
        record = None if content is None else json.loads(content)
        if record is None or record["payload"] is None:
            return None
        text, file = self._declare(record["schema"])
        if text not in self.ids:
            self.ids[text] = len(self.ids) + 1
            self.registry.register(self.ids[text], subject, text, schemaType="PROTOBUF")
            pool = descriptor_pool.DescriptorPool()
            for each in (*_imported_files(), file):
                pool.Add(each)
            full_name = f"{file.package}.{file.message_type[0].name}".removeprefix(".")
            self._messages[text] = message_factory.GetMessageClass(
                pool.FindMessageTypeByName(full_name)
            )
        message = self._messages[text]()
        self._fill(message, record["schema"], record["payload"])
        # The message is the first of its schema: an empty list of indexes.
        header = b"\0" + self.ids[text].to_bytes(4, "big") + b"\0"
        body: bytes = message.SerializeToString()
        return header + body

    def convert_change(
        self, key: bytes | None, value: bytes | None, topic: str
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and the value of a record."""
        return self.convert(key, f"{topic}-key"), self.convert(value, f"{topic}-value")

    def _declare(
        self, connect: Mapping[str, Any]
    ) -> tuple[str, descriptor_pb2.FileDescriptorProto]:
        """Return the text of the schema, and its descriptor."""
        package, _, name = str(connect.get("name") or "ConnectDefault1").rpartition(".")
        imports = [each.name for each in _imported_files()]
        file = descriptor_pb2.FileDescriptorProto(
            name="record.proto", package=package, syntax="proto3", dependency=imports
        )
        lines = ['syntax = "proto3";', f"package {package};" if package else "", ""]
        lines += ['import "confluent/meta.proto";', 'import "google/protobuf/wrappers.proto";', ""]
        message = file.message_type.add(name=name)
        lines += self._declare_message(message, connect, f".{package}" if package else "")
        return "\n".join(lines), file

    def _declare_message(
        self, message: descriptor_pb2.DescriptorProto, connect: Mapping[str, Any], scope: str
    ) -> list[str]:
        full_name = f"{scope}.{message.name}"
        lines, nested, optional = [f"message {message.name} {{"], [], []
        for number, declared in enumerate(connect["fields"], 1):
            is_list = declared["type"] == "array"
            element = declared["items"] if is_list else declared
            kind, options = self._kind(element)
            spelled = kind
            if element["type"] == "struct":
                known = [each.name for each in message.nested_type]
                if kind == declared["field"]:
                    kind = f"{kind}Message"
                spelled = kind
                if kind not in known:
                    inner = message.nested_type.add(name=kind)
                    nested += self._declare_message(inner, element, full_name)
                kind = f"{full_name}.{kind}"
            elif "." in kind:
                spelled = kind = f".{kind}"
            label = "repeated " if is_list else ""
            is_optional = declared.get("optional") and self.nullables == "optional"
            if is_optional and not is_list:
                label = "optional "
                optional.append(declared["field"])
            proto_label = _FIELD.LABEL_REPEATED if is_list else _FIELD.LABEL_OPTIONAL
            _add_field(message, declared["field"], number, kind, label=proto_label)
            lines.append(f"  {label}{spelled} {declared['field']} = {number}{options};")
        for each in message.field:
            if each.name in optional:
                each.proto3_optional = True
                each.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{each.name}")
        return [*lines, "", *[f"  {line}" for line in nested], "}"]

    def _kind(self, connect: Mapping[str, Any]) -> tuple[str, str]:
        """Return the type of a field, and its options."""
        name = connect.get("name")
        if name in _LOGICAL_TYPES:
            parameters = connect.get("parameters") or {}
            pairs = {"scale": parameters.get("scale")}
            pairs["precision"] = parameters.get("connect.decimal.precision")
            params = ", ".join(
                f'{{ key: "{key}", value: "{value}" }}' for key, value in pairs.items() if value
            )
            options = f" [(confluent.field_meta) = {{ params: [{params}] }}]" if params else ""
            return _LOGICAL_TYPES[str(name)], options
        if connect["type"] == "struct":
            return str(name or "ConnectDefault2").rpartition(".")[2], ""
        kind = _PRIMITIVES[connect["type"]]
        if connect.get("optional") and self.nullables == "wrapper":
            return f"google.protobuf.{_WRAPPERS[kind]}", ""
        return kind, ""

    def _fill(self, message: Any, connect: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        for declared in connect["fields"]:
            name, value = declared["field"], payload.get(declared["field"])
            if value is None:
                continue
            if declared["type"] == "array":
                self._fill_list(getattr(message, name), declared["items"], value)
            elif declared["type"] == "struct":
                part = getattr(message, name)
                part.SetInParent()
                self._fill(part, declared, value)
            elif declared.get("name") in _LOGICAL_TYPES:
                _fill_logical(getattr(message, name), declared, value)
            elif declared.get("optional") and self.nullables == "wrapper":
                getattr(message, name).SetInParent()
                getattr(message, name).value = _scalar(declared, value)
            else:
                setattr(message, name, _scalar(declared, value))

    def _fill_list(self, elements: Any, items: Mapping[str, Any], values: list[Any]) -> None:
        for value in values:
            if items["type"] == "struct":
                self._fill(elements.add(), items, value)
            elif items.get("name") in _LOGICAL_TYPES:
                _fill_logical(elements.add(), items, value)
            elif items.get("optional") and self.nullables == "wrapper":
                elements.add().value = _scalar(items, value)
            else:
                elements.append(_scalar(items, value))


def _scalar(connect: Mapping[str, Any], value: Any) -> Any:
    if connect["type"] == "bytes":
        return base64.b64decode(value)
    return float(value) if connect["type"] in ("float", "double") else value


def _fill_logical(message: Any, connect: Mapping[str, Any], value: Any) -> None:
    message.SetInParent()
    kind = str(connect["name"]).removeprefix(CONNECT)
    if kind == "Decimal":
        message.value = base64.b64decode(value)
        message.scale = int(connect["parameters"]["scale"])
    elif kind == "Date":
        day = _EPOCH + timedelta(days=value)
        message.year, message.month, message.day = day.year, day.month, day.day
    elif kind == "Time":
        seconds, milliseconds = divmod(value, 1_000)
        message.hours, rest = divmod(seconds, 3_600)
        message.minutes, message.seconds = divmod(rest, 60)
        message.nanos = milliseconds * 1_000_000
    else:
        message.FromMilliseconds(value)
