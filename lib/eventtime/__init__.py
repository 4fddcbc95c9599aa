"""When an event happened: clocks of devices, and guards for the watermark."""

from .clocks import server_time, shifted
from .guard import ahead_of, instant
from .offsets import clock_offsets

__all__ = ["ahead_of", "clock_offsets", "instant", "server_time", "shifted"]
