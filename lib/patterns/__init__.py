"""Pattern matching (CEP), anomaly detection against past windows, and standing queries."""

from .deviation import DeviationDetection, DeviationRule, PastWindows, deviations
from .language import (
    Comparison,
    Condition,
    Measure,
    Negation,
    Pattern,
    Step,
    StepEvents,
    compare,
    events_of,
    followed_by,
    next_,
    not_followed_by,
    sequence,
    step,
)
from .match_sequence import MatchSequence, match_sequence
from .percolator.parser import parse_query
from .percolator.percolate import compile_queries, percolate
from .percolator.query_format import query_format
from .percolator.query_terms import And, Not, Or, Phrase, Prefix, Query, Range
from .percolator.search_fields import SearchFields

__all__ = [
    "And",
    "Comparison",
    "Condition",
    "DeviationDetection",
    "DeviationRule",
    "MatchSequence",
    "Measure",
    "Negation",
    "Not",
    "Or",
    "PastWindows",
    "Pattern",
    "Phrase",
    "Prefix",
    "Query",
    "Range",
    "SearchFields",
    "Step",
    "StepEvents",
    "compare",
    "compile_queries",
    "deviations",
    "events_of",
    "followed_by",
    "match_sequence",
    "next_",
    "not_followed_by",
    "parse_query",
    "percolate",
    "query_format",
    "sequence",
    "step",
]
