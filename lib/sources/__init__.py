"""Inputs of jobs: Kafka topics, and the change feed of a Delta table."""

from .delta_change_feed import DeltaChangeFeed, net_changes
from .heartbeat import Heartbeats
from .input import Input
from .kafka_source import KafkaSource
from .row_checks import Rule

__all__ = ["DeltaChangeFeed", "Heartbeats", "Input", "KafkaSource", "Rule", "net_changes"]
