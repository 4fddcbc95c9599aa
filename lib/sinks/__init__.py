"""Rows -> Delta tables, exactly once."""

from ..commit.outcome import Outcome
from .append import Append
from .corrected import Corrected, rebuilt
from .current import Current
from .fan_out import FanOut, Mapped
from .first_seen import FirstSeen, KeyFilter
from .history import History
from .side_table import SideTable
from .sink import Sink, sole
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
    "History",
    "KeyFilter",
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
