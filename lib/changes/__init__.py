"""A stream that is a table's history: what databases log of their changes, and the tables that follow from it."""

from .debezium import debezium
from .maxwell import maxwell
from .newest import newest
from .versions import revised, versions

__all__ = ["debezium", "maxwell", "newest", "revised", "versions"]
