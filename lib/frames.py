"""A batch's frames by name: what a job's inputs, or its transform, hand to a sink."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from .errors import ArgumentError

ROWS = "rows"
"""The name of the one frame that a transform has made."""


def sole(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the only frame that there is.

    Raises ArgumentError for several: rows of different inputs are not rows of one table.
    """
    if len(frames) != 1:
        raise ArgumentError(
            f"the batch has the frames {', '.join(frames) or 'none'}.",
            "one frame, for a sink that writes rows of one kind.",
            "a transform or each_batch that makes one frame of them, or a sink that takes frames "
            "by name, such as a View.",
        )
    return next(iter(frames.values()))


def named(frames: Mapping[str, DataFrame], name: str, what: str) -> DataFrame:
    """Return the frame of this name, which the argument `what` of a sink has given.

    Raises ArgumentError where there is none.
    """
    if name not in frames:
        raise ArgumentError(
            f"{what} is {name!r}, and the batch has the frames {', '.join(frames) or 'none'}.",
            "the name of one of the job's inputs, in a job without a transform; or 'rows'.",
        )
    return frames[name]
