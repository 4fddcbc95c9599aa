"""A stream that is a table's history: newest rows, versions; and the states that events give."""

from .between import changes_between
from .commands import Command, Commands
from .deciding import decided
from .fold import Fold
from .folded import folded, folded_as_of
from .newest import newest
from .records import records
from .snapshots import after_snapshot, snapshot_of
from .versions import revised, versions

__all__ = [
    "Command",
    "Commands",
    "Fold",
    "after_snapshot",
    "changes_between",
    "decided",
    "folded",
    "folded_as_of",
    "newest",
    "records",
    "revised",
    "snapshot_of",
    "versions",
]
