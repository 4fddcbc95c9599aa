"""Schemas and records of Avro drawn at random, and what another reader of Avro makes of them."""

from __future__ import annotations

import io
import json
import random
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


class Drawn:
    """A schema, and records of it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._names = 0
        self.schema = self._record(0)
        self._parsed = fastavro.parse_schema(json.loads(json.dumps(self.schema)))

    @property
    def text(self) -> str:
        return json.dumps(self.schema)

    def record(self) -> Any:
        return self._value(self.schema)

    def written(self, record: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, record)
        return out.getvalue()

    def read(self, content: bytes) -> Any:
        """Return what the other reader makes of bytes; raises what it raises."""
        given = io.BytesIO(content)
        found = fastavro.schemaless_reader(given, self._parsed, None)
        if given.tell() != len(content):
            raise ValueError("bytes after the record")
        return found

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _record(self, depth: int) -> dict[str, Any]:
        fields = [
            {"name": f"f{at}", "type": self._type(depth + 1)}
            for at in range(self.chance.randint(1, 5))
        ]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def _type(self, depth: int) -> Any:
        kind = self.chance.random()
        if kind < 0.2:
            inner = self._type(depth)
            nested = isinstance(inner, list)
            return inner if nested else self.chance.choice([["null", inner], [inner, "null"]])
        if depth < 4 and kind < 0.4:
            shape = self.chance.choice(["array", "map", "record"])
            if shape == "record":
                return self._record(depth)
            key = "items" if shape == "array" else "values"
            return {"type": shape, key: self._type(depth + 1)}
        if kind < 0.45:
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B", "C"]}
        if kind < 0.5:
            return {"type": "fixed", "name": self._name("X"), "size": self.chance.randint(1, 20)}
        if kind < 0.53:
            return self.chance.choice([["int", "long"], ["null", "float", "double"]])
        return self.chance.choice(SIMPLE)

    def _value(self, kind: Any) -> Any:
        if isinstance(kind, list):
            return self._value(self.chance.choice(kind))
        if isinstance(kind, str):
            return self._simple(kind)
        if "logicalType" in kind:
            return self._logical(kind)
        name = kind["type"]
        if name == "record":
            return {field["name"]: self._value(field["type"]) for field in kind["fields"]}
        if name == "array":
            return [self._value(kind["items"]) for _ in range(self.chance.choice([0, 1, 2, 7]))]
        if name == "map":
            keys = self.chance.sample(_TEXTS, k=self.chance.choice([0, 1, 3]))
            return {key: self._value(kind["values"]) for key in keys}
        if name == "enum":
            return self.chance.choice(kind["symbols"])
        return self.chance.randbytes(kind["size"])

    def _simple(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self.chance.random() < 0.5
        if kind in ("int", "long"):
            bound = 2**31 if kind == "int" else 2**63
            return self.chance.choice([each for each in _LONGS if -bound <= each < bound])
        if kind in ("float", "double"):
            return self.chance.choice([0.0, 1.5, -2.25, 2.0**100, float("inf")])
        text = self.chance.choice(_TEXTS)
        return text if kind == "string" else text.encode("utf-16")

    def _logical(self, kind: dict[str, Any]) -> Any:
        name = kind["logicalType"]
        if name == "date":
            return self.chance.choice([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)])
        if name == "uuid":
            return str(UUID(bytes=self.chance.randbytes(16)))
        if name == "decimal":
            most = 10 ** kind["precision"] - 1
            unscaled = self.chance.choice([0, 1, -1, 255, -256, most, -most])
            digits = tuple(map(int, str(abs(unscaled))))
            return Decimal((int(unscaled < 0), digits, -kind["scale"]))
        passed = self.chance.choice([0, -1, 1_714_564_800_123, -62_135_596_800_000])
        at = _EPOCH + timedelta(milliseconds=passed)
        return at if name.startswith("local") else at.replace(tzinfo=UTC)


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Return the bytes cut off, with some changed, or with others after them."""
    kind = chance.random()
    changed = bytearray(content)
    if kind < 0.3:
        return bytes(changed[: chance.randrange(len(changed) + 1)])
    if kind < 0.4:
        return bytes(changed) + chance.randbytes(chance.randint(1, 20))
    for _ in range(chance.randint(1, 3)):
        if changed:
            at = chance.randrange(len(changed))
            changed[at] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return bytes(changed)


def same(found: Any, other: Any) -> bool:
    """Return whether two readers have read one value."""
    if isinstance(other, dict) and isinstance(found, list):
        found = dict(found)
    if isinstance(other, dict):
        return found.keys() == other.keys() and all(same(found[k], other[k]) for k in other)
    if isinstance(other, list):
        return len(found) == len(other) and all(map(same, found, other))
    if isinstance(other, UUID):
        return str(found).lower() == str(other)
    if isinstance(other, float):
        return found == other or (found != found and other != other)
    return bool(found == other)
