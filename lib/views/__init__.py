"""Materialised views, and the keyed tables that they are made of."""

from ._buckets import lookup
from .keyed_table import KeyedTable
from .view import View

__all__ = ["KeyedTable", "View", "lookup"]
