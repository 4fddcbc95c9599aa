"""Rows -> Delta tables, exactly once."""

from .append import Append
from .batch import Batch, planned
from .commit import commit_once, require_current
from .corrected import Corrected, rebuilt
from .current import Current
from .history import History
from .kept import Kept
from .options import CommitOptions
from .rejected import Rejected
from .several import Derived, Several, tables
from .sink import Outcome, Sink
from .snapshot import Snapshot
from .stamp import Stamp
from .unseen import KeyFilter, Unseen
from .upsert import Upsert
from .versions import Versions
from .view import View
from .waiting import WaitingJoin

__all__ = [
    "Append",
    "Batch",
    "CommitOptions",
    "Corrected",
    "Current",
    "Derived",
    "History",
    "Kept",
    "KeyFilter",
    "Outcome",
    "Rejected",
    "Several",
    "Sink",
    "Snapshot",
    "Stamp",
    "Unseen",
    "Upsert",
    "Versions",
    "View",
    "WaitingJoin",
    "commit_once",
    "planned",
    "rebuilt",
    "require_current",
    "tables",
]
