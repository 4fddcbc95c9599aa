"""Joins of two streams (interval), a stream and a table (lookup, as-of), and two tables."""

from .incremental_join import WEIGHT, table_table
from .interval_join import IntervalJoin, JoinEmit, stream_stream
from .lookup_join import (
    VALID_FROM,
    VALID_TO,
    LookupJoin,
    LookupJoinType,
    stream_table,
    validity_periods,
)

__all__ = [
    "VALID_FROM",
    "VALID_TO",
    "WEIGHT",
    "IntervalJoin",
    "JoinEmit",
    "LookupJoin",
    "LookupJoinType",
    "stream_stream",
    "stream_table",
    "table_table",
    "validity_periods",
]
