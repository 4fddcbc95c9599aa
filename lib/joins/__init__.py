"""Two inputs -> one."""

from ._panes import late_from
from .stream_stream import stream_stream
from .stream_table import TableJoin, stream_table, versions
from .table_table import WEIGHT, table_table

__all__ = [
    "WEIGHT",
    "TableJoin",
    "late_from",
    "stream_stream",
    "stream_table",
    "table_table",
    "versions",
]
