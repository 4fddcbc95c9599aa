"""Rows -> Delta tables, exactly once."""

from .append import Append
from .batch import Batch, planned
from .commit import CommitOptions, Outcome, commit_once
from .rejected import Rejected
from .sink import Sink
from .upsert import Upsert

__all__ = ["Append", "Batch", "CommitOptions", "Outcome", "Rejected", "Sink", "Upsert", "commit_once", "planned"]
