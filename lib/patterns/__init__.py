"""Patterns in streams: sequences of events within a time, and what deviates from the past."""

from .comparison import Deviation, Deviations, Past, deviations
from .language import directly, not_, sequence, step, then
from .measures import Comparison, Measure, Taken, compare, of
from .pattern import Absent, Condition, Pattern, Step
from .sequences import Sequences, match_sequence

__all__ = [
    "Absent",
    "Comparison",
    "Condition",
    "Deviation",
    "Deviations",
    "Measure",
    "Past",
    "Pattern",
    "Sequences",
    "Step",
    "Taken",
    "compare",
    "deviations",
    "directly",
    "match_sequence",
    "not_",
    "of",
    "sequence",
    "step",
    "then",
]
