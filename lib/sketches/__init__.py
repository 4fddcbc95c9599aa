"""Sketches: small summaries of many values that merge, with the bounds of their error."""

from .bloom import contains, fullness, members
from .bloom_size import BloomSize
from .bloom_table import BloomTable
from .deduplicate import decided, deduplicate
from .heavy_hitters import count_error, top
from .hyperloglog import distinct, distinct_bounds, distinct_estimate
from .quantiles import quantile, quantile_bounds, rank_error
from .stored import is_sound, reason
from .theta import difference, intersection, theta, theta_bounds, theta_estimate, union

__all__ = [
    "BloomSize",
    "BloomTable",
    "contains",
    "count_error",
    "decided",
    "deduplicate",
    "difference",
    "distinct",
    "distinct_bounds",
    "distinct_estimate",
    "fullness",
    "intersection",
    "is_sound",
    "members",
    "quantile",
    "quantile_bounds",
    "rank_error",
    "reason",
    "theta",
    "theta_bounds",
    "theta_estimate",
    "top",
    "union",
]
