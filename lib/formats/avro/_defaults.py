"""Encoding of defaults in Avro schemas, so that they are decoded like any other value."""

from __future__ import annotations

import struct
from typing import Any

from ._avro_schema import AvroType, SchemaError


def encode_default(avro_type: AvroType, value: Any, path: str) -> bytes:
    """Return a default as bytes; raise SchemaError if it does not match its type."""
    try:
        return _encode(avro_type, value)
    except (ValueError, OverflowError):
        raise SchemaError(f"the default of {path} does not match its type") from None


def _encode(avro_type: AvroType, value: Any) -> bytes:
    match avro_type.type_name, value:
        case "union", _:
            return _encode_union(avro_type, value)
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case _, bool():
            raise ValueError
        case "int" | "long", int() if -(2**63) <= value < 2**63:
            return encode_varint(value)
        case "float" | "double", int() | float():
            return struct.pack("<f" if avro_type.type_name == "float" else "<d", float(value))
        case "enum", str():
            return encode_varint(avro_type.symbols.index(value))
        case "string", str():
            return _length_prefixed(value.encode())
        # The default of a bytes type has one character per byte.
        case "bytes", str():
            return _length_prefixed(value.encode("latin-1"))
        case "fixed", str() if len(value) == avro_type.size:
            return value.encode("latin-1")
        case "record", dict():
            if any(field.name not in value and not field.has_default for field in avro_type.fields):
                raise ValueError
            values = [value.get(field.name, field.default) for field in avro_type.fields]
            types = [field.type for field in avro_type.fields]
            return b"".join(map(_encode, types, values))
        case "array", list():
            return _encode_block([_encode(avro_type.element_type, each) for each in value])
        case "map", dict():
            element_type = avro_type.element_type
            return _encode_block(
                [
                    _length_prefixed(key.encode()) + _encode(element_type, value[key])
                    for key in value
                ]
            )
    raise ValueError


def _encode_union(avro_type: AvroType, value: Any) -> bytes:
    for index, branch in enumerate(avro_type.branches):
        try:
            return encode_varint(index) + _encode(branch, value)
        except (ValueError, OverflowError):
            continue
    raise ValueError


def _encode_block(elements: list[bytes]) -> bytes:
    header = encode_varint(len(elements)) if elements else b""
    return header + b"".join(elements) + encode_varint(0)


def _length_prefixed(content: bytes) -> bytes:
    return encode_varint(len(content)) + content


def encode_varint(value: int) -> bytes:
    """Return an integer as a zigzag varint."""
    remaining = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while remaining > 0x7F:
        encoded.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    encoded.append(remaining)
    return bytes(encoded)
