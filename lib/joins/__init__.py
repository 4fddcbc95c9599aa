"""Two inputs -> one."""

from .panes import late_from
from .stream_stream import stream_stream
from .stream_table import TableJoin, stream_table, versions
from .table_table import WEIGHT, comes, goes, stays, table_table

__all__ = [
    "WEIGHT",
    "TableJoin",
    "comes",
    "goes",
    "late_from",
    "stays",
    "stream_stream",
    "stream_table",
    "table_table",
    "versions",
]
