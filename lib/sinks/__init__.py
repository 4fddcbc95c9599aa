"""Rows -> Delta tables, exactly once."""

from .append import Append
from .batch import Batch, planned
from .commit import CommitOptions, commit_once, require_current
from .rejected import Rejected
from .sink import Outcome, Sink
from .stamp import Stamp
from .upsert import Upsert

__all__ = [
    "Append",
    "Batch",
    "CommitOptions",
    "Outcome",
    "Rejected",
    "Sink",
    "Stamp",
    "Upsert",
    "commit_once",
    "planned",
    "require_current",
]
