"""For tests of streams: an embedded Kafka broker, and whatever else a test of a job needs."""

from .broker import Broker

__all__ = ["Broker"]
