"""Event-time windows: the same calls on batches and on streams, with the same rows."""

from .cumulative import Cumulative, cumulative
from .deduplicate import Deduplication, deduplicate
from .hopping import Hopping, hopping
from .merging import Overlapping, Same
from .session import Session, session
from .sliding import Sliding, sliding
from .tumbling import Tumbling, rolled_up, tumbling
from .window import Window
from .windowed import Windowed

__all__ = [
    "Cumulative",
    "Deduplication",
    "Hopping",
    "Overlapping",
    "Same",
    "Session",
    "Sliding",
    "Tumbling",
    "Window",
    "Windowed",
    "cumulative",
    "deduplicate",
    "hopping",
    "rolled_up",
    "session",
    "sliding",
    "tumbling",
]
