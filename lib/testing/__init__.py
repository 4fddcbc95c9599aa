"""For tests of streams: an embedded Kafka broker, and whatever else a test of a job needs."""

from .broker import Broker
from .driver import StreamDriver

__all__ = ["Broker", "StreamDriver"]
