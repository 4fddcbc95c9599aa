"""External stores that a job keeps up to date: the Store interface, and PostgreSQL."""

from .postgres import PostgresStore
from .store import BatchInfo, Store

__all__ = ["BatchInfo", "PostgresStore", "Store"]
