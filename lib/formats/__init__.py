"""Formats that decode Kafka values to typed rows: JSON, Avro, Protobuf, Debezium and Maxwell."""

from .avro import avro_format
from .debezium import debezium_format
from .format import Format
from .json import json_format, upsert_json_format
from .maxwell import maxwell_format
from .protobuf import connect_protobuf_format, protobuf_format
from .schema_header import with_schema_header
from .schema_registry import SchemaRegistry

__all__ = [
    "Format",
    "SchemaRegistry",
    "avro_format",
    "connect_protobuf_format",
    "debezium_format",
    "json_format",
    "maxwell_format",
    "protobuf_format",
    "upsert_json_format",
    "with_schema_header",
]
