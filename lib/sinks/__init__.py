"""Rows -> Delta tables, exactly once."""

from .append import Append
from .batch import Batch, planned
from .commit import CommitOptions, commit_once, require_current
from .rejected import Rejected
from .several import Derived, Several, tables
from .sink import Outcome, Sink
from .stamp import Stamp
from .unseen import KeyFilter, Unseen
from .upsert import Upsert

__all__ = [
    "Append",
    "Batch",
    "CommitOptions",
    "Derived",
    "KeyFilter",
    "Outcome",
    "Rejected",
    "Several",
    "Sink",
    "Stamp",
    "Unseen",
    "Upsert",
    "commit_once",
    "planned",
    "require_current",
    "tables",
]
