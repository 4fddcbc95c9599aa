"""Rows -> Delta tables, exactly once."""

from ..commit.outcome import Outcome
from ..frames import sole
from .append import Append
from .corrected import Corrected, rebuilt
from .current import Current
from .fan_out import FanOut, Mapped
from .first_seen import FirstSeen
from .folded import Folded
from .history import History
from .side_table import SideTable
from .sink import Sink
from .snapshot import Snapshot
from .temporal_join import TemporalJoin
from .upsert import Upsert
from .version_table import VersionTable

__all__ = [
    "Append",
    "Corrected",
    "Current",
    "FanOut",
    "FirstSeen",
    "Folded",
    "History",
    "Mapped",
    "Outcome",
    "SideTable",
    "Sink",
    "Snapshot",
    "TemporalJoin",
    "Upsert",
    "VersionTable",
    "rebuilt",
    "sole",
]
