"""For tests of streams: an embedded Kafka broker, and whatever else a test of a job needs."""

from .broker import Broker
from .crash import CrashError, crash_after
from .delivery import Record, deliver
from .driver import StreamDriver

__all__ = ["Broker", "CrashError", "Record", "StreamDriver", "crash_after", "deliver"]
