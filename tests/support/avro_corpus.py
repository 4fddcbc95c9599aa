"""Random Avro schemas and records, and fastavro as the reference implementation."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro

SIMPLE: list[Any] = [
    *("boolean", "int", "long", "float", "double", "string", "bytes"),
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
]
_TEXTS = ["", "/a", "é", "\U0001f600", "x" * 70, "a\x00b"]
_LONGS = [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]
_EPOCH = datetime(1970, 1, 1)


def record_schema(name: str = "Click", **fields: Any) -> str:
    """Return the JSON of a record schema.

    fields: the type by field name, or a dictionary with the type as "of" and other properties.
    """
    declared_fields = []
    for field_name, field in fields.items():
        properties = dict(field) if isinstance(field, dict) and "of" in field else {"of": field}
        declared_fields.append({"name": field_name, "type": properties.pop("of"), **properties})
    return json.dumps({"type": "record", "name": name, "fields": declared_fields})


def encode_records(schema: str, *records: Mapping[str, Any]) -> list[bytes]:
    parsed_schema = fastavro.parse_schema(json.loads(schema))
    encoded = []
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed_schema, record)
        encoded.append(out.getvalue())
    return encoded


def with_header(schema_id: int, content: bytes) -> bytes:
    """Return a value with the header of a schema registry."""
    return b"\0" + schema_id.to_bytes(4, "big") + content


class RandomSchema:
    """A random schema with random records."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._names = 0
        self.schema = self._record(0)
        self._parsed = fastavro.parse_schema(json.loads(json.dumps(self.schema)))

    @property
    def text(self) -> str:
        return json.dumps(self.schema)

    def random_record(self) -> Any:
        return self._value(self.schema)

    def encode(self, record: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, record)
        return out.getvalue()

    def decode(self, content: bytes) -> Any:
        """Return the record that fastavro decodes; raises its errors."""
        stream = io.BytesIO(content)
        record = fastavro.schemaless_reader(stream, self._parsed, None)
        if stream.tell() != len(content):
            raise ValueError("bytes after the record")
        return record

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _record(self, depth: int) -> dict[str, Any]:
        fields = [
            {"name": f"f{at}", "type": self._type(depth + 1)}
            for at in range(self.rng.randint(1, 5))
        ]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def _type(self, depth: int) -> Any:
        kind = self.rng.random()
        if kind < 0.2:
            inner = self._type(depth)
            nested = isinstance(inner, list)
            return inner if nested else self.rng.choice([["null", inner], [inner, "null"]])
        if depth < 4 and kind < 0.4:
            shape = self.rng.choice(["array", "map", "record"])
            if shape == "record":
                return self._record(depth)
            key = "items" if shape == "array" else "values"
            return {"type": shape, key: self._type(depth + 1)}
        if kind < 0.45:
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B", "C"]}
        if kind < 0.5:
            return {"type": "fixed", "name": self._name("X"), "size": self.rng.randint(1, 20)}
        if kind < 0.53:
            return self.rng.choice([["int", "long"], ["null", "float", "double"]])
        return self.rng.choice(SIMPLE)

    def _value(self, kind: Any) -> Any:
        if isinstance(kind, list):
            return self._value(self.rng.choice(kind))
        if isinstance(kind, str):
            return self._simple(kind)
        if "logicalType" in kind:
            return self._logical(kind)
        name = kind["type"]
        if name == "record":
            return {field["name"]: self._value(field["type"]) for field in kind["fields"]}
        if name == "array":
            return [self._value(kind["items"]) for _ in range(self.rng.choice([0, 1, 2, 7]))]
        if name == "map":
            keys = self.rng.sample(_TEXTS, k=self.rng.choice([0, 1, 3]))
            return {key: self._value(kind["values"]) for key in keys}
        if name == "enum":
            return self.rng.choice(kind["symbols"])
        return self.rng.randbytes(kind["size"])

    def _simple(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind in ("int", "long"):
            bound = 2**31 if kind == "int" else 2**63
            return self.rng.choice([each for each in _LONGS if -bound <= each < bound])
        if kind in ("float", "double"):
            return self.rng.choice([0.0, 1.5, -2.25, 2.0**100, float("inf")])
        text = self.rng.choice(_TEXTS)
        return text if kind == "string" else text.encode("utf-16")

    def _logical(self, kind: dict[str, Any]) -> Any:
        name = kind["logicalType"]
        if name == "date":
            return self.rng.choice([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)])
        if name == "uuid":
            return str(UUID(bytes=self.rng.randbytes(16)))
        if name == "decimal":
            most = 10 ** kind["precision"] - 1
            unscaled = self.rng.choice([0, 1, -1, 255, -256, most, -most])
            digits = tuple(map(int, str(abs(unscaled))))
            return Decimal((int(unscaled < 0), digits, -kind["scale"]))
        passed = self.rng.choice([0, -1, 1_714_564_800_123, -62_135_596_800_000])
        at = _EPOCH + timedelta(milliseconds=passed)
        return at if name.startswith("local") else at.replace(tzinfo=UTC)


def corrupt_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return the bytes truncated, with some of them replaced, or with others appended."""
    kind = rng.random()
    changed = bytearray(content)
    if kind < 0.3:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    if kind < 0.4:
        return bytes(changed) + rng.randbytes(rng.randint(1, 20))
    for _ in range(rng.randint(1, 3)):
        if changed:
            at = rng.randrange(len(changed))
            changed[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed)


def is_same_value(actual: Any, expected: Any) -> bool:
    """Return whether a decoded value equals the value of the reference implementation."""
    if isinstance(expected, dict) and isinstance(actual, list):
        actual = dict(actual)
    if isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(
            is_same_value(actual[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(is_same_value, actual, expected))
    if isinstance(expected, UUID):
        return str(actual).lower() == str(expected)
    if isinstance(expected, float):
        return actual == expected or (actual != actual and expected != expected)
    return bool(actual == expected)
