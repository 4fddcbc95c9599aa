"""Sketches: small summaries of many values that merge, with known bounds of their error."""

from .bloom import bloom, fullness, might_contain
from .bloom_size import BloomSize
from .bloom_table import BloomTable
from .datasketch import to_datasketch
from .heavy_hitters import count_error, top
from .hyperloglog import distinct, distinct_bounds, distinct_estimate
from .minhash import signature, to_minhash
from .near_duplicates import NearDuplicates, near_duplicates
from .quantiles import quantile, quantile_bounds, rank_error
from .stored import is_sound, reason
from .theta import difference, intersection, theta, theta_bounds, theta_estimate, union

__all__ = [
    "BloomSize",
    "BloomTable",
    "NearDuplicates",
    "bloom",
    "count_error",
    "difference",
    "distinct",
    "distinct_bounds",
    "distinct_estimate",
    "fullness",
    "intersection",
    "is_sound",
    "might_contain",
    "near_duplicates",
    "quantile",
    "quantile_bounds",
    "rank_error",
    "reason",
    "signature",
    "theta",
    "theta_bounds",
    "theta_estimate",
    "to_datasketch",
    "to_minhash",
    "top",
    "union",
]
