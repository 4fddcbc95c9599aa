"""The frames of a batch by name, which a job passes from its inputs or transform to a sink."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from .errors import ArgumentError

ROWS = "rows"
"""The name of the result of a transform."""


def only_frame(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the only frame of a batch; raise ArgumentError for several frames or no frame.

    >>> only_frame({"clicks": clicks}).columns
    ['event_time', 'page', 'user', 'ms']
    """
    if len(frames) != 1:
        raise ArgumentError(
            f"invalid sink: the batch has the frames {', '.join(frames) or '(none)'}",
            "one frame, since this sink writes the rows of one frame",
            "a transform or each_batch that returns one frame, or a sink for several frames, such "
            "as View",
        )
    return next(iter(frames.values()))


def require_frame(frames: Mapping[str, DataFrame], name: str, label: str) -> DataFrame:
    """Return the frame of this name; raise ArgumentError for `label` if it is missing."""
    if name not in frames:
        raise ArgumentError(
            f"invalid {label}: {name!r}; the batch has the frames {', '.join(frames) or '(none)'}",
            "the name of an input if the job has no transform, else 'rows'",
        )
    return frames[name]
