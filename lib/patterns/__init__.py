"""Patterns in streams: sequences of events of one key, within a time."""

from .measures import Comparison, Measure, Taken, compare, of
from .pattern import Absent, Condition, Pattern, Step, directly, not_, sequence, step, then
from .sequences import Sequences, match_sequence

__all__ = [
    "Absent",
    "Comparison",
    "Condition",
    "Measure",
    "Pattern",
    "Sequences",
    "Step",
    "Taken",
    "compare",
    "directly",
    "match_sequence",
    "not_",
    "of",
    "sequence",
    "step",
    "then",
]
