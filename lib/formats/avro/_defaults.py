"""Defaults of Avro's schemas, which are JSON, as the bytes that a record would have in their place.

So a default is read as any other value is.
"""

from __future__ import annotations

import struct
from typing import Any

from ._schema import Avro, SchemaError


def written(kind: Avro, value: Any, path: str) -> bytes:
    """Return a default as bytes; SchemaError where it is none of its type."""
    if kind.kind == "union":
        return _union(kind, value, path)
    if kind.kind == "null" and value is None:
        return b""
    if kind.kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    if kind.kind in ("int", "long") and _is_whole(value):
        return varint(value)
    if kind.kind in ("float", "double") and _is_number(value):
        return struct.pack("<f" if kind.kind == "float" else "<d", float(value))
    if isinstance(value, str):
        return _text(kind, value, path)
    if kind.kind in ("array", "map", "record") and isinstance(value, list | dict):
        return _nested(kind, value, path)
    raise _wrong(path)


def _union(kind: Avro, value: Any, path: str) -> bytes:
    for at, branch in enumerate(kind.branches):
        try:
            return varint(at) + written(branch, value, path)
        except SchemaError:
            continue
    raise _wrong(path)


def _text(kind: Avro, value: str, path: str) -> bytes:
    if kind.kind == "enum" and value in kind.symbols:
        return varint(kind.symbols.index(value))
    if kind.kind == "string":
        return _with_length(value.encode())
    try:
        # Each character of a default of bytes is one byte.
        content = value.encode("latin-1")
    except UnicodeEncodeError:
        raise _wrong(path) from None
    if kind.kind == "bytes":
        return _with_length(content)
    if kind.kind == "fixed" and len(content) == kind.size:
        return content
    raise _wrong(path)


def _nested(kind: Avro, value: Any, path: str) -> bytes:
    if kind.kind == "record" and isinstance(value, dict):
        parts = []
        for field in kind.fields:
            if field.name not in value and not field.filled:
                raise _wrong(path)
            parts.append(written(field.type, value.get(field.name, field.default), path))
        return b"".join(parts)
    if kind.kind == "array" and isinstance(value, list):
        return _block([written(kind.within, each, path) for each in value])
    if kind.kind == "map" and isinstance(value, dict):
        return _block(
            [_with_length(key.encode()) + written(kind.within, value[key], path) for key in value]
        )
    raise _wrong(path)


def _block(elements: list[bytes]) -> bytes:
    begun = varint(len(elements)) if elements else b""
    return begun + b"".join(elements) + varint(0)


def _with_length(content: bytes) -> bytes:
    return varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a whole number as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(path: str) -> SchemaError:
    return SchemaError(f"the default of {path} is none of its type")
