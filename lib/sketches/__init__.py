"""Sketches: small, mergeable summaries of many values, with known error bounds."""

from ._envelope import HEADER_BYTES, LABEL_BYTES, MAGIC, is_valid_sketch, sketch_fault
from .bloom import bloom_filter, bloom_filter_stats, might_contain
from .bloom_size import BloomSize
from .bloom_table import BloomTable
from .datasketch_bridge import to_datasketch_hll
from .heavy_hitters import approx_top_k, top_k_count_error
from .hyperloglog import approx_count_distinct, hll_bounds, hll_estimate
from .minhash import minhash, to_datasketch_minhash
from .near_duplicates import NearDuplicates, near_duplicates
from .quantiles import approx_quantile, quantile_bounds, rank_error
from .theta import (
    theta_bounds,
    theta_difference,
    theta_estimate,
    theta_intersection,
    theta_sketch,
    theta_union,
)

__all__ = [
    "HEADER_BYTES",
    "LABEL_BYTES",
    "MAGIC",
    "BloomSize",
    "BloomTable",
    "NearDuplicates",
    "approx_count_distinct",
    "approx_quantile",
    "approx_top_k",
    "bloom_filter",
    "bloom_filter_stats",
    "hll_bounds",
    "hll_estimate",
    "is_valid_sketch",
    "might_contain",
    "minhash",
    "near_duplicates",
    "quantile_bounds",
    "rank_error",
    "sketch_fault",
    "theta_bounds",
    "theta_difference",
    "theta_estimate",
    "theta_intersection",
    "theta_sketch",
    "theta_union",
    "to_datasketch_hll",
    "to_datasketch_minhash",
    "top_k_count_error",
]
