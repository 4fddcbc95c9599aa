"""Event-time windows: the same calls on batches and on streams, with the same rows."""

from ._grid import closes
from .cumulative import cumulative
from .deduplicate import decided, deduplicate
from .hopping import hopping
from .merging import Overlapping, Same
from .rolled_up import rolled_up
from .session import session
from .sliding import sliding
from .tumbling import tumbling

__all__ = [
    "Overlapping",
    "Same",
    "closes",
    "cumulative",
    "decided",
    "deduplicate",
    "hopping",
    "rolled_up",
    "session",
    "sliding",
    "tumbling",
]
