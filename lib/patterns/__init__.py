"""Patterns in streams: sequences within a time, deviations from the past, standing queries."""

from .comparison import Deviation, Deviations, Past, deviations
from .language import directly, not_, sequence, step, then
from .measures import Comparison, Measure, Taken, compare, of
from .pattern import Absent, Condition, Pattern, Step
from .sequences import Sequences, match_sequence
from .standing import (
    And,
    Not,
    Or,
    Prefix,
    Query,
    Range,
    SearchFields,
    Words,
    matches,
    parse_query,
    query_format,
    read_queries,
)

__all__ = [
    "Absent",
    "And",
    "Comparison",
    "Condition",
    "Deviation",
    "Deviations",
    "Measure",
    "Not",
    "Or",
    "Past",
    "Pattern",
    "Prefix",
    "Query",
    "Range",
    "SearchFields",
    "Sequences",
    "Step",
    "Taken",
    "Words",
    "compare",
    "deviations",
    "directly",
    "match_sequence",
    "matches",
    "not_",
    "of",
    "parse_query",
    "query_format",
    "read_queries",
    "sequence",
    "step",
    "then",
]
