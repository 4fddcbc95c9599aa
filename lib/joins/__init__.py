"""Two inputs -> one."""

from .stream_table import TableJoin, stream_table, versions
from .table_table import WEIGHT, comes, goes, stays, table_table

__all__ = ["WEIGHT", "TableJoin", "comes", "goes", "stays", "stream_table", "table_table", "versions"]
