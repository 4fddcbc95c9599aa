"""Records of Kafka Connect's JSON converter, as Confluent's Avro converter writes the same ones."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from tests.support.avro_corpus import with_header
from tests.support.registry_server import FakeRegistry

CONNECT = "org.apache.kafka.connect.data."
_PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL_TYPES = {
    f"{CONNECT}Date": "date",
    f"{CONNECT}Time": "time-millis",
    f"{CONNECT}Timestamp": "timestamp-millis",
}
_UNKNOWN_PRECISION = 64
_DEFAULT_NAME = "io.confluent.connect.avro.ConnectDefault"


@dataclass
class AvroConverter:
    """Converts records, and registers the schemas of a topic in a registry.

    ids: the ids by the text of the schema.
    """

    registry: FakeRegistry
    ids: dict[str, int] = field(default_factory=dict)
    _parsed: dict[str, Any] = field(default_factory=dict)

    def convert(self, content: bytes | None, subject: str) -> bytes | None:
        """Return the record of a JSON record with its schema part; None for a tombstone."""
        record = None if content is None else json.loads(content)
        if record is None or record["payload"] is None:
            return None
        schema = avro_schema(record["schema"])
        schema_id = self.register(json.dumps(schema), subject)
        out = io.BytesIO()
        plain = self._parsed[json.dumps(schema)]
        fastavro.schemaless_writer(out, plain, _datum(record["schema"], record["payload"]))
        return with_header(schema_id, out.getvalue())

    def convert_change(
        self, key: bytes | None, value: bytes | None, topic: str
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and the value of a record."""
        return self.convert(key, f"{topic}-key"), self.convert(value, f"{topic}-value")

    def register(self, text: str, subject: str) -> int:
        """Return the id of a schema, which is a new one for a new schema."""
        if text not in self.ids:
            self.ids[text] = len(self.ids) + 1
            self.registry.register(self.ids[text], subject, text)
            self._parsed[text] = fastavro.parse_schema(_without_logical_types(json.loads(text)))
        return self.ids[text]


def avro_schema(connect: Mapping[str, Any]) -> Any:
    """Return the Avro schema of a schema of Kafka Connect, by the rules of Confluent's AvroData."""
    return _schema(connect, set(), is_root=True)


def _schema(connect: Mapping[str, Any], names: set[str], *, is_root: bool = False) -> Any:
    avro = _value_schema(connect, names)
    return avro if is_root or not connect.get("optional") else ["null", avro]


def _value_schema(connect: Mapping[str, Any], names: set[str]) -> Any:
    kind, name = connect["type"], connect.get("name")
    attributes: dict[str, Any] = {}
    if kind in ("int8", "int16"):
        attributes["connect.type"] = kind
    if connect.get("version") is not None:
        attributes["connect.version"] = connect["version"]
    parameters = connect.get("parameters")
    if parameters:
        attributes["connect.parameters"] = parameters
    if name is not None:
        attributes["connect.name"] = name
    if kind == "struct":
        full_name = name or _DEFAULT_NAME
        if full_name in names:
            return full_name
        names.add(full_name)
        namespace, _, simple_name = full_name.rpartition(".")
        fields = [_field(declared, names) for declared in connect["fields"]]
        record = {"type": "record", "name": simple_name, "namespace": namespace, "fields": fields}
        return {**record, **attributes}
    if kind == "array":
        return {"type": "array", "items": _schema(connect["items"], names), **attributes}
    if kind == "map":
        return {"type": "map", "values": _schema(connect["values"], names), **attributes}
    if name == f"{CONNECT}Decimal":
        precision = int((parameters or {}).get("connect.decimal.precision", _UNKNOWN_PRECISION))
        scale = int(parameters["scale"]) if parameters else 0
        attributes |= {"logicalType": "decimal", "precision": precision, "scale": scale}
    elif name in _LOGICAL_TYPES:
        attributes["logicalType"] = _LOGICAL_TYPES[str(name)]
    return {"type": _PRIMITIVES[kind], **attributes} if attributes else _PRIMITIVES[kind]


def _field(declared: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    default = {"default": None} if declared.get("optional") else {}
    return {"name": declared["field"], "type": _schema(declared, names), **default}


def _datum(connect: Mapping[str, Any], value: Any) -> Any:
    kind = connect["type"]
    if value is None:
        return None
    if kind == "struct":
        return {each["field"]: _datum(each, value.get(each["field"])) for each in connect["fields"]}
    if kind == "array":
        return [_datum(connect["items"], each) for each in value]
    if kind == "map":
        return {key: _datum(connect["values"], each) for key, each in value.items()}
    if kind == "bytes":
        return base64.b64decode(value)
    return float(value) if kind in ("float", "double") else value


def _without_logical_types(schema: Any) -> Any:
    """Return a schema by which the raw values are encoded."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_logical_types(each) for key, each in schema.items() if key != "logicalType"
    }
