"""Two inputs -> one."""

from ._as_of import VALID_FROM, VALID_TO
from .lookup import Lookup
from .stream_stream import IntervalJoin, JoinEmission, stream_stream
from .stream_table import TableJoin, stream_table, versions
from .table_table import WEIGHT, table_table

__all__ = [
    "VALID_FROM",
    "VALID_TO",
    "WEIGHT",
    "IntervalJoin",
    "JoinEmission",
    "Lookup",
    "TableJoin",
    "stream_stream",
    "stream_table",
    "table_table",
    "versions",
]
