"""Replication of a database: all its tables in one job, each from its CDC topic."""

from .control_table import read_control_rows, request_resume
from .replicated_tables import Encoding, Keep, ReplicatedTables, TableOptions
from .topic_records import replicated_input

__all__ = [
    "Encoding",
    "Keep",
    "ReplicatedTables",
    "TableOptions",
    "read_control_rows",
    "replicated_input",
    "request_resume",
]
