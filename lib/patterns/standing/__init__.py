"""Search on a stream: standing queries, and the documents that run past them."""

from .fields import SearchFields
from .format import query_format
from .matching import matches, read_queries
from .parser import parse_query
from .queries import And, Not, Or, Prefix, Query, Range, Words

__all__ = [
    "And",
    "Not",
    "Or",
    "Prefix",
    "Query",
    "Range",
    "SearchFields",
    "Words",
    "matches",
    "parse_query",
    "query_format",
    "read_queries",
]
