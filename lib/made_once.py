"""Columns that Python makes once, and takes again in each batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

from pyspark.sql.utils import is_remote

Given = TypeVarTuple("Given")
Made = TypeVar("Made")


def made_once(make: Callable[[*Given], Made]) -> Callable[[*Given], Made]:
    """Keep the columns that a function makes of names and numbers.

    A column takes Python several calls into the JVM, and one more when it is let go: for those of a
    small batch that is a tenth of its time. The columns of Spark Connect are kept apart, and what
    is not deterministic must not be kept.
    """
    kept = {remote: lru_cache(maxsize=1_000)(make) for remote in (False, True)}

    @wraps(make)
    def found(*given: *Given) -> Made:
        return kept[is_remote()](*given)

    return found
