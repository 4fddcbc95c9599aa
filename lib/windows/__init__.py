"""Event-time windows: the same calls on batches and on streams, with the same rows."""

from .closing import closes
from .cumulative import cumulative
from .hopping import hopping
from .meeting import Overlapping, Same
from .rolled_up import rolled_up
from .session import session
from .sliding import sliding
from .tumbling import tumbling

__all__ = ["Overlapping", "Same", "closes", "cumulative", "hopping", "rolled_up", "session", "sliding", "tumbling"]
