"""JSON: a schema's objects, by Arrow's parser and by Spark's; and a changelog of them by key."""

from ._format import JsonFormat, json_format
from ._inner import fields
from ._keyed import KeyedJson, keyed_json

__all__ = ["JsonFormat", "KeyedJson", "fields", "json_format", "keyed_json"]
