"""Stores outside of Spark that a job keeps in step: one small interface, and PostgreSQL."""

from .postgres import PostgresStore
from .store import Applied, Store

__all__ = ["Applied", "PostgresStore", "Store"]
