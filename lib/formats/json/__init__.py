"""JSON objects with a declared schema, and keyed JSON changelogs."""

from ._json_format import JsonFormat, json_format
from ._spark_reader import inner_object_fields
from ._upsert_format import UpsertJsonFormat, upsert_json_format

__all__ = [
    "JsonFormat",
    "UpsertJsonFormat",
    "inner_object_fields",
    "json_format",
    "upsert_json_format",
]
