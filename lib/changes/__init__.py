"""A stream that is a table's history: the newest row of each key, and all versions of it."""

from .newest import newest
from .versions import revised, versions

__all__ = ["newest", "revised", "versions"]
