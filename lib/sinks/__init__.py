"""Sinks: write batches to Delta tables exactly once, or send them to Kafka or webhooks."""

from ..commit.protocol import Outcome
from ..delta.table_layout import TableLayout
from ..input_frames import only_frame
from .append import Append
from .append_unique import AppendUnique
from .base import SendingSink, Sink, WrappingSink
from .changelog.current_table import CurrentTable
from .changelog.history_table import HistoryTable
from .changelog.percolator_sink import Percolator, read_query_versions
from .changelog.temporal_join import TemporalJoin
from .changelog.versioned_table import VersionedTable
from .event_sourcing import CommandHandler, Projection
from .external.mirror import Mirror
from .external.webhook import Webhook
from .fan_out import FanOut, MapRows
from .kafka.idempotent_receiver import IdempotentReceiver
from .kafka.kafka_sink import DeadLetterTopic, KafkaSink
from .side_table import SideOutputTable
from .snapshot_join import SnapshotJoin
from .upsert import Upsert
from .windows.alarms import Alarms
from .windows.corrected_windows import CorrectedWindows, windows_from_log

__all__ = [
    "Alarms",
    "Append",
    "AppendUnique",
    "CommandHandler",
    "CorrectedWindows",
    "CurrentTable",
    "DeadLetterTopic",
    "FanOut",
    "HistoryTable",
    "IdempotentReceiver",
    "KafkaSink",
    "MapRows",
    "Mirror",
    "Outcome",
    "Percolator",
    "Projection",
    "SendingSink",
    "SideOutputTable",
    "Sink",
    "SnapshotJoin",
    "TableLayout",
    "TemporalJoin",
    "Upsert",
    "VersionedTable",
    "Webhook",
    "WrappingSink",
    "only_frame",
    "read_query_versions",
    "windows_from_log",
]
