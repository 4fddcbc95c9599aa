"""Which jobs a replay can begin in the middle of; all others are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import ArgumentError
from ...sinks import Append, Upsert
from ...sources.event_time import EVENT_TIME
from .._backlog import by_window
from ..job import Job
from ..query.comparable import innermost


def require_middle(job: Job) -> None:
    """Refuse a job of which it is not known which results need records of before.

    Raises:
        ArgumentError: which says what stands in the way.
    """
    reason = next(_reasons(job), None)
    if reason is not None:
        raise ArgumentError(
            f"a replay of {job.name!r} is to begin in the middle, and the job has {reason}.",
            "final results of a transform that tells its reach and the time of its results, in "
            "Append, or in Upsert by window and key; or rows by themselves in Append.",
            "a replay from the start, without --from.",
        )


def _reasons(job: Job) -> Iterator[str]:
    """Return what stands in the way of a replay that begins in the middle."""
    if job.emission != "final" or job.corrections is not None or job.merges:
        yield "windows that change after they came out"
    transform = job.transform
    if job.keeps_state and transform is not None:
        if transform.reach is None or transform.result_time is None:
            yield (
                f"{_kind(transform)}, which does not tell how far before a result a row can be "
                "that matters to it"
            )
        time = getattr(transform, "time", EVENT_TIME)
        times = set(time if isinstance(time, tuple) else (time,))
        if times != {EVENT_TIME}:
            yield f"a transform by {', '.join(sorted(times))}, while rows are read by {EVENT_TIME}"
    elif job.each_batch is not None and len(job.inputs) > 1:
        yield "each_batch over several inputs, which may hang on their batches"
    sink = innermost(job.sink)
    if isinstance(sink, Upsert):
        if sink.aggs or not by_window(sink, transform):
            yield f"an Upsert by {', '.join(sink.keys)}, whose rows may be of any time"
    elif not isinstance(sink, Append):
        yield f"the sink {type(sink).__name__}, whose rows may be of any time"


def _kind(transform: Any) -> str:
    window = getattr(transform, "window", transform)
    return type(window).__name__
