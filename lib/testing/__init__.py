"""Test tools: a virtual-time driver, an embedded Kafka broker, and injected crashes."""

from ..frame_diff import FrameDiff
from ..kafka.producer import Record, deliver
from .broker import Broker
from .crash_points import CrashError, crash_after
from .driver import StreamDriver
from .equivalence import compare_stream_and_batch

__all__ = [
    "Broker",
    "CrashError",
    "FrameDiff",
    "Record",
    "StreamDriver",
    "compare_stream_and_batch",
    "crash_after",
    "deliver",
]
