"""Heartbeats of a running query, sent while its inputs are quiet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...columns import microseconds
from ...commit.batch import EPOCH
from ..job import Job
from ..summary import Summary
from .idleness import Idle, sources
from .streams import Stream

_NEVER = float("inf")


class Pulse:
    """Looks at a query now and then, and moves the watermark of its quiet inputs on; does nothing
    where none is to."""

    def __init__(self, job: Job, inputs: Mapping[str, Sequence[Stream]], summary: Summary) -> None:
        self._summary = summary
        self._streams = {stream.name: stream for streams in inputs.values() for stream in streams}
        self._on = any(given.idle is not None for given in job.inputs.values())
        timeouts = {
            stream.name: _NEVER if given.idle is None else microseconds(given.idle) / 1_000_000
            for name, given in job.inputs.items()
            for stream in inputs[name]
        }
        self._idle = Idle(timeouts)

    def begin(self, spark: SparkSession) -> None:
        """Make the folders, with an instant that moves nothing: a source must be there when its
        query starts."""
        for stream in self._streams.values():
            if stream.heartbeats is not None:
                stream.heartbeats.beat(spark, EPOCH)

    def look(self, query: StreamingQuery, progress: Mapping[str, Any], spark: SparkSession) -> None:
        """Take note of the last batch, and send the heartbeats that are due."""
        if not self._on:
            return
        self._idle.saw(
            int(progress["batchId"]),
            *sources(progress, {name: s.reads for name, s in self._streams.items()}),
        )
        self._idle.reached = {
            name: mark for name, mark in self._summary.reached.items() if mark is not None
        }
        self._idle.before = self._idle.before or _watermark(progress)
        for name, mark in self._idle.due(busy=bool(query.status["isTriggerActive"])).items():
            stream = self._streams[name]
            if stream.heartbeats is not None:
                stream.heartbeats.beat(
                    spark, EPOCH + timedelta(microseconds=mark + stream.lateness)
                )


def _watermark(progress: Mapping[str, Any]) -> int | None:
    """Return a query's watermark in microseconds since 1970; None before it has one."""
    text = (progress.get("eventTime") or {}).get("watermark")
    return (
        None
        if text is None
        else (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1) or None
    )
