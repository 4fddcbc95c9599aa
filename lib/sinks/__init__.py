"""Rows -> Delta tables, exactly once; and to Kafka, at least once."""

from ..commit.layout import Layout
from ..commit.outcome import Outcome
from ..frames import sole
from .alarms import Alarms
from .append import Append
from .corrected import Corrected
from .current import Current
from .dead_topic import DeadTopic
from .decided import Decided
from .fan_out import FanOut, Mapped
from .first_seen import FirstSeen
from .folded import Folded
from .history import History
from .matched import Matched, standing_versions
from .mirror import Mirror
from .once import Once
from .publish import Publish
from .rebuilt import rebuilt
from .side_table import SideTable
from .sink import Sink
from .snapshot import Snapshot
from .temporal_join import TemporalJoin
from .upsert import Upsert
from .version_table import VersionTable
from .webhook import Webhook

__all__ = [
    "Alarms",
    "Append",
    "Corrected",
    "Current",
    "DeadTopic",
    "Decided",
    "FanOut",
    "FirstSeen",
    "Folded",
    "History",
    "Layout",
    "Mapped",
    "Matched",
    "Mirror",
    "Once",
    "Outcome",
    "Publish",
    "SideTable",
    "Sink",
    "Snapshot",
    "TemporalJoin",
    "Upsert",
    "VersionTable",
    "Webhook",
    "rebuilt",
    "sole",
    "standing_versions",
]
