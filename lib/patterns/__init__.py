"""Patterns in streams: sequences of events of one key, within a time."""

from .language import directly, not_, sequence, step, then
from .measures import Comparison, Measure, Taken, compare, of
from .pattern import Absent, Condition, Pattern, Step
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
