"""Bytes -> typed rows: JSON, and the envelopes in which databases log their changes."""

from .debezium import debezium
from .format import Format
from .json import json_format
from .keyed_json import keyed_json
from .maxwell import maxwell

__all__ = ["Format", "debezium", "json_format", "keyed_json", "maxwell"]
