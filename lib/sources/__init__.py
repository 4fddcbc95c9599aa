"""Kafka, and a reading of it: source, format and event time; and a Delta table's changes."""

from .heartbeat import Heartbeats
from .kafka import KafkaSource
from .reading import Reading
from .table_changes import TableChanges, net_changes

__all__ = ["Heartbeats", "KafkaSource", "Reading", "TableChanges", "net_changes"]
