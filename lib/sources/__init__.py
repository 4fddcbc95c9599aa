"""Kafka, and a reading of it: source, format and event time."""

from .heartbeat import Heartbeats
from .kafka import KafkaSource
from .reading import Reading

__all__ = ["Heartbeats", "KafkaSource", "Reading"]
