"""Bytes -> typed rows: JSON, Avro, and the envelopes in which databases log their changes."""

from .avro import avro_format
from .debezium import debezium
from .format import Format
from .headed import headed
from .json import json_format
from .keyed_json import keyed_json
from .maxwell import maxwell
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
]
