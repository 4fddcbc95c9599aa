"""A stream that is a table's history: newest rows, versions; and the states that events give."""

from .commands import Command, Commands
from .deciding import decided
from .fold import Fold
from .folded import folded, folded_as_of
from .newest import newest
from .versions import revised, versions

__all__ = [
    "Command",
    "Commands",
    "Fold",
    "decided",
    "folded",
    "folded_as_of",
    "newest",
    "revised",
    "versions",
]
