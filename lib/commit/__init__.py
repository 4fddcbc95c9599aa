"""The exactly-once kernel: a batch's plan, its stamp, the protocol, and Delta's log.

Nothing here knows a sink.
"""

from ..offsets import Offsets
from .batch import EPOCH, Batch, planned
from .once import commit_once, last_batch, require_current
from .options import CommitOptions
from .outcome import Outcome
from .stamp import Stamp

__all__ = [
    "EPOCH",
    "Batch",
    "CommitOptions",
    "Offsets",
    "Outcome",
    "Stamp",
    "commit_once",
    "last_batch",
    "planned",
    "require_current",
]
