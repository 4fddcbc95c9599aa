"""Materialized views over keyed tables, maintained incrementally."""

from .bucketing import read_view
from .keyed_table import KeyedTable
from .view import View

__all__ = ["KeyedTable", "View", "read_view"]
