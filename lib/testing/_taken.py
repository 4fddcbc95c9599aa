"""What a driver takes: a classic session, and a transform that can be called."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from pyspark.sql import SparkSession

from ..errors import ArgumentError, ColumnTypeError


def require_classic(spark: object) -> None:
    """Refuse what is no classic session."""
    if not isinstance(spark, SparkSession):
        raise ColumnTypeError(
            f"spark is {spark!r}.",
            "a classic SparkSession; under Spark Connect a stream's batches cannot be seen from "
            "here.",
            "SparkSession.builder.master('local[2]').getOrCreate(), without a remote.",
        )


def require_takes(transform: object, names: Sequence[str]) -> None:
    """Refuse a transform that cannot be called with one frame for each input."""
    if not callable(transform):
        raise ColumnTypeError(
            f"transform is {transform!r}.",
            "a function of the stream's DataFrames, or a value such as Windowed(...).",
        )
    try:
        signature = inspect.signature(transform)
    except ValueError:
        # A function written in C may have no signature: the call itself will tell.
        return
    try:
        signature.bind(*names)
    except TypeError as fault:
        raise ArgumentError(
            f"transform takes {signature}, and the stream has {len(names)}: {', '.join(names)}.",
            "a function that takes one DataFrame for each input, in their order.",
        ) from fault
