"""How far a changelog has come for the events that wait for it, and whether a batch is through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted
from ..commit.batch import Batch
from ..commit.once import last_batch, require_current
from ..durations import microseconds
from ..errors import ReplayMismatchError
from ..jvm import delta_state


def finished(spark: SparkSession, tables: Sequence[tuple[str, str]], batch: Batch) -> bool:
    """Return whether the batch is in the last of the tables.

    Tables of another query, or with a later batch, are refused.
    """
    last = None
    for path, step in tables:
        require_current(spark, path, batch, step)
        last = last_batch(spark, path, batch, step)
        if last is None and delta_state(spark, path).version >= 0:
            raise ReplayMismatchError(
                f"{path} has no batch of {batch.job}, query {batch.query_id}: it is another "
                "query's.",
                "tables that this query's checkpoint began with.",
                "restore that checkpoint, or start with new tables; nothing was written.",
            )
    return last is not None and last >= batch.number


def passed(
    newest: int | None,
    events: Sequence[DataFrame],
    time: str,
    *,
    lateness: str | timedelta,
    lag: str | timedelta | None,
) -> int | None:
    """Return the instant that a changelog has passed, in microseconds since 1970.

    Events before it are due. None where nothing tells.

    newest: the changelog's newest change, of the slowest of its parts.
    events: those that arrived and those that wait.
    """
    instants = []
    if newest is not None:
        instants.append(newest - microseconds(lateness, "lateness", least=0))
    if lag is not None:
        # The newest event of all is still among these, or the changelog has long passed it.
        last = _last(events, time)
        if last is not None:
            instants.append(last - microseconds(lag, "lag", least=0))
    return max(instants, default=None)


def _last(events: Sequence[DataFrame], time: str) -> int | None:
    """Return the newest time of these events, in microseconds since 1970."""
    times = reduce(DataFrame.unionByName, [frame.select(quoted(time)) for frame in events])
    found: int | None = times.agg(F.max(F.unix_micros(quoted(time)))).collect()[0][0]
    return found


def is_due(time: str, instant: int) -> Column:
    """Return whether an event is decided once the changelog has passed this instant.

    An event without a time waits for nothing.
    """
    return F.coalesce(quoted(time) < F.timestamp_micros(F.lit(instant)), F.lit(True))
