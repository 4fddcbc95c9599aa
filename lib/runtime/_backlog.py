"""Which jobs can work off a backlog as one batch; all others are refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from ..errors import ArgumentError
from ..joins import IntervalJoin, Lookup
from ..sinks import Append, Decided, FanOut, Folded, Mapped, Sink, Snapshot, Upsert
from ..sketches import NearDuplicates
from ..sources.event_time import EVENT_TIME
from ..transform import Stateless
from ..windows import Cumulative, Deduplication, Hopping, Session, Sliding, Tumbling, Windowed

if TYPE_CHECKING:
    from .job import Job

_WINDOWS = (Tumbling, Hopping, Cumulative, Session, Sliding)


def require_backlog(job: Job) -> None:
    """Refuse a backlog where the batch and the stream after it would not make one answer.

    Raises:
        ArgumentError: which says what stands in the way.
    """
    reason = next(_reasons(job), None)
    if reason is not None:
        raise ArgumentError(
            f"backlog is {job.backlog!r}, and the job has {reason}.",
            "final results of windows, of joins, of deduplication, of near duplicates, or of rows "
            "by themselves; in Append, Folded or Decided, in Snapshot with a Lookup, or in Upsert "
            "where no two results have one key.",
            "backlog=None, which reads the topic as a stream from its first record on.",
        )


def _reasons(job: Job) -> Iterator[str]:
    """Return what a backlog cannot be worked off with."""
    if job.emission != "final" or job.corrections is not None:
        yield "windows that change after they came out"
    yield from _of_inputs(job)
    yield from _of_transform(job.transform)
    if job.each_batch is not None and job.transform is None and len(job.inputs) > 1:
        yield "each_batch over several inputs, which may hang on their batches"
    yield from _of_sink(job.sink, job.transform)


def _of_inputs(job: Job) -> Iterator[str]:
    for name, given in job.inputs.items():
        source = given.reading.source
        if source.pattern and len(job.inputs) > 1:
            yield f"the input {name!r} by a pattern, among several inputs"
        if source.on_data_loss == "record":
            yield f"the input {name!r} with on_data_loss='record'"
        if not isinstance(source.start, str | Mapping):
            yield f"the input {name!r} that starts at a time"
        if source.start == "latest":
            yield f"the input {name!r} that starts at the latest record, without a backlog"


def _of_transform(transform: Any) -> Iterator[str]:
    if transform is None or isinstance(transform, Stateless):
        return
    kind = type(transform)
    if kind not in (Windowed, Deduplication, IntervalJoin, NearDuplicates):
        yield f"{kind.__name__}, of which it is not known which results its rows still change"
        return
    times = transform.time if isinstance(transform.time, tuple) else (transform.time,)
    if set(times) != {EVENT_TIME}:
        yield f"a transform by {', '.join(times)}, while rows are late by their {EVENT_TIME}"
    if isinstance(transform, Windowed):
        yield from _of_window(transform.window)


def _of_window(window: Any) -> Iterator[str]:
    if type(window) not in _WINDOWS:
        yield f"windows of {type(window).__name__}"
    if isinstance(window, Session) and isinstance(window.gap, Column):
        yield "sessions with a gap of each event"
    if isinstance(window, Sliding) and window.windows != "each":
        yield f"sliding windows with windows={window.windows!r}"


def _of_sink(sink: Sink, transform: Any) -> Iterator[str]:
    if isinstance(sink, Mapped):
        yield from _of_sink(sink.sink, transform)
    elif isinstance(sink, Snapshot) and isinstance(sink.join, Lookup):
        # The batch meets one version of the table, as each batch of the stream does.
        yield from _of_sink(sink.sink, transform)
    elif isinstance(sink, FanOut):
        for each in (*sink.also, sink.target):
            yield from _of_sink(each, transform)
    elif type(sink) not in (Append, Decided, Folded, Upsert):
        yield f"the sink {type(sink).__name__}"
    elif isinstance(sink, Upsert) and not sink.aggs and not by_window(sink, transform):
        yield f"an Upsert by {', '.join(sink.keys)}, of which two results may be one row"


def by_window(sink: Upsert, transform: Any) -> bool:
    """Return whether each result has keys of its own."""
    if not isinstance(transform, Windowed) or isinstance(transform.window, Sliding):
        return False
    return {"window", *transform.by} <= set(sink.keys)
