"""For tests of streams: an embedded Kafka broker, and whatever else a test of a job needs."""

from ..differences import Differences
from .broker import Broker
from .compare import compare
from .crash import CrashError, crash_after
from .delivery import Record, deliver
from .driver import StreamDriver

__all__ = [
    "Broker",
    "CrashError",
    "Differences",
    "Record",
    "StreamDriver",
    "compare",
    "crash_after",
    "deliver",
]
