"""Changelogs: current and historical tables from change data capture, and event sourcing."""

from .decider import Command, Decider, decide
from .fold import Fold
from .fold_events import fold_events, fold_events_as_of
from .history_rows import history_rows, history_updates
from .latest_changes import latest_changes, to_upsert_records
from .snapshot_diff import diff_snapshots, drop_covered_by_snapshot, snapshot_as_changes

__all__ = [
    "Command",
    "Decider",
    "Fold",
    "decide",
    "diff_snapshots",
    "drop_covered_by_snapshot",
    "fold_events",
    "fold_events_as_of",
    "history_rows",
    "history_updates",
    "latest_changes",
    "snapshot_as_changes",
    "to_upsert_records",
]
