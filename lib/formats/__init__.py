"""Bytes -> typed rows: JSON, Avro, Protobuf, and the envelopes of databases' changes."""

from .avro import avro_format
from .debezium import debezium
from .format import Format
from .headed import headed
from .json import json_format, keyed_json
from .maxwell import maxwell
from .protobuf import protobuf_format
from .registry import Registry

__all__ = [
    "Format",
    "Registry",
    "avro_format",
    "debezium",
    "headed",
    "json_format",
    "keyed_json",
    "maxwell",
    "protobuf_format",
]
