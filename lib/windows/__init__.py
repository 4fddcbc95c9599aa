"""Event-time windows and deduplication, with the same results on batches and streams."""

from .cumulative import Cumulative, cumulative
from .deduplicate import Deduplication, deduplicate
from .hopping import Hopping, hopping
from .session_window import Session, session
from .sliding import Sliding, sliding
from .tumbling import Tumbling, roll_up, tumbling
from .window import MergeEqualWindows, MergeSessions, Window, WindowAggregation

__all__ = [
    "Cumulative",
    "Deduplication",
    "Hopping",
    "MergeEqualWindows",
    "MergeSessions",
    "Session",
    "Sliding",
    "Tumbling",
    "Window",
    "WindowAggregation",
    "cumulative",
    "deduplicate",
    "hopping",
    "roll_up",
    "session",
    "sliding",
    "tumbling",
]
