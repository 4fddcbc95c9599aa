"""Bytes -> typed rows: Kafka, formats, and what could not be read."""

from .formats import Format
from .heartbeat import Heartbeats
from .json import json_format
from .kafka import KafkaSource
from .reading import Reading

__all__ = ["Format", "Heartbeats", "KafkaSource", "Reading", "json_format"]
