"""Two inputs -> one."""

from .stream_stream import IntervalJoin, stream_stream
from .stream_table import TableJoin, stream_table, versions
from .table_table import WEIGHT, table_table

__all__ = [
    "WEIGHT",
    "IntervalJoin",
    "TableJoin",
    "stream_stream",
    "stream_table",
    "table_table",
    "versions",
]
