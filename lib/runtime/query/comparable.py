"""Which jobs have a target that follows from their log alone, and when its results are out."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column

from ...durations import microseconds
from ...errors import ColumnTypeError
from ...sinks import Append, Corrected, Mapped, Sink, Upsert
from ...transform import Stateless
from ...windows import Cumulative, Hopping, Session, Tumbling, Windowed
from ..job import Job

_MICRO = timedelta(microseconds=1)
EXACT = (Tumbling, Hopping, Cumulative)
"""Windows of which each result has keys of its own, and comes out as soon as it is final."""


def require_comparable(job: Job) -> None:
    """Refuse a job whose target does not follow from its log alone.

    Raises:
        ColumnTypeError: which says what stands in the way.
    """
    sink = innermost(job.sink)
    stateless = job.transform is None or isinstance(job.transform, Stateless)
    reasons = {
        "each_batch, which may have seen other tables then": job.each_batch is not None,
        "windows that change after they came out": job.emission == "updates"
        or job.corrections is not None
        or isinstance(sink, Corrected),
        f"the sink {type(sink).__name__}": not isinstance(sink, Append | Upsert),
        "a sink that adds up": isinstance(sink, Upsert) and bool(sink.aggs),
        "a sink that replaces rows without a result's time": isinstance(sink, Upsert) and stateless,
        f"{type(job.transform).__name__}, which does not tell the time of its results": (
            not stateless and (job.transform is None or job.transform.result_time is None)
        ),
    }
    for reason, given in reasons.items():
        if given:
            raise ColumnTypeError(
                f"{job.name!r} has {reason}: its target cannot be computed anew from the log.",
                "final results of a transform that tells their time, or of one without state, in "
                "Append; or in Upsert without aggs.",
            )


def innermost(sink: Sink) -> Sink:
    """Return the sink that writes, without those that change the rows before."""
    return innermost(sink.sink) if isinstance(sink, Mapped) else sink


def freshness(job: Job) -> timedelta:
    """Return how long after a result's time it may still be missing, at most."""
    transform = job.transform
    if isinstance(transform, Windowed) and isinstance(transform.window, EXACT):
        return timedelta(0)
    if isinstance(transform, Windowed) and isinstance(transform.window, Session):
        gap = transform.window.gap
        # A gap that is a column has no longest one; sessions of a day are taken for open.
        return timedelta(days=1) if isinstance(gap, Column) else microseconds(gap) * _MICRO
    reach = None if transform is None else transform.reach
    # A join waits for a pane and a slice beyond its bounds; a pane is a second at least.
    return 3 * max(reach or timedelta(days=1), timedelta(seconds=1))
