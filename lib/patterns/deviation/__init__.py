"""Anomaly detection: windows whose values deviate from those of past windows."""

from ._verdicts import WINDOW_START, RuleComparison
from .deviation_detection import DeviationDetection, deviations
from .deviation_rule import DeviationRule, PastWindows

__all__ = [
    "WINDOW_START",
    "DeviationDetection",
    "DeviationRule",
    "PastWindows",
    "RuleComparison",
    "deviations",
]
