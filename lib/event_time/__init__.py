"""Event time: correction of device clocks, and conversion and validation of timestamps."""

from .clocks import apply_clock_offset, clock_offsets, correct_event_time
from .timestamps import epoch_to_timestamp, exceeds_future_tolerance

__all__ = [
    "apply_clock_offset",
    "clock_offsets",
    "correct_event_time",
    "epoch_to_timestamp",
    "exceeds_future_tolerance",
]
