"""A running query: looked at every second until it ends, or stopped when that is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ..process.stop import Stop
from ..telemetry.gauge import Gauge, gauge

_POLL_SECONDS = 1
_COMMIT_SECONDS = 30.0
Look = Callable[[StreamingQuery, Mapping[str, Any]], None]
"""What is done with a query and its progress report, every second and at its end."""


def watch(query: StreamingQuery, stop: Stop, look: Look) -> None:
    """Look at the query's progress until it ends, or stop it when that was asked for."""
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(_POLL_SECONDS))
        if stop.asked and not ended:
            finish(query, stop)
            ended = True
        last = query.lastProgress
        if last is not None:
            look(query, json.loads(last.json))


def unseen(query: StreamingQuery, last: Gauge, seen: int) -> list[Gauge]:
    """Return the reports after that of the batch `seen`, up to `last`, as far as Spark keeps them.

    Batches may be shorter than the time between two looks; Spark keeps a hundred reports.
    """
    if last.batch == seen:
        return []
    if seen < 0 or last.batch > seen + 1:
        kept = (gauge(json.loads(each.json)) for each in query.recentProgress)
        return [each for each in kept if seen < each.batch < last.batch] + [last]
    return [last]


def finish(query: StreamingQuery, stop: Stop) -> None:
    """Let the batch that runs be written and committed, then end the query."""
    while not stop.wait(_POLL_SECONDS) and query.isActive:
        pass
    deadline = time.monotonic() + _COMMIT_SECONDS
    while query.isActive and not committed(query, stop) and time.monotonic() < deadline:
        query.awaitTermination(_POLL_SECONDS)
    query.stop()


def committed(query: StreamingQuery, stop: Stop) -> bool:
    """Return whether Spark has noted the last batch as done.

    Without that note the batch would run again, and be skipped.
    """
    last = query.lastProgress
    return stop.batch is None or (last is not None and last.batchId >= stop.batch)
