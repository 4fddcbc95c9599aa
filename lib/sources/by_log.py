"""Rows that are late by the log alone: by the events before them in their own partition.

A row's watermark is the newest event time of the records before it in its partition, in the order
of their offsets, less the lateness. It is a function of the log, wherever batches are cut; so is
whether the row is late. Spark's own watermark of that partition, which a batch takes from the
batches before it, is never ahead of it: what is in time by the log is in time for every operator.

Spark has no running maximum over a stream, so it is numpy over the event times of a partition's
records, which go to Python and back as whole numbers. That needs a task for each partition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..arrow_function import arrow_function
from ..columns import quoted
from ..offsets import EventTimes, at_place
from .before import FILTERED
from .event_time import EVENT_TIME

NEWEST = "__tidegate_newest"
"""The newest event time before a row in its partition, in microseconds; null before the first."""
LATE = "__tidegate_late_by_log"
"""Whether a row is late by the log."""
PROPERTY = "tidegate.newest"
"""The local property of a batch's Spark jobs that tells what was newest where the batch begins."""
_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class ByLog:
    """How rows are late by the log.

    late_at: the instant from which a row is late, of its `event_time`.
    lateness: how far its watermark is behind the newest event before it.
    """

    late_at: Column
    lateness: timedelta

    def of_stream(self, rows: DataFrame, good: Column, place: tuple[str, int]) -> DataFrame:
        """Add NEWEST and LATE to the rows of a stream that reads one partition.

        The Spark jobs of a batch have to bear PROPERTY, as `told` makes it.
        """
        topic, partition = place
        newest = _of_stream(topic, partition)(F.when(good, F.unix_micros(EVENT_TIME)))
        return self._judged(rows, good, newest)

    def of_range(
        self, rows: DataFrame, good: Column, place: Sequence[Column], before: EventTimes
    ) -> DataFrame:
        """Add NEWEST and LATE to the rows of offset ranges, each of them read by one task.

        place: the columns of a row's topic, partition and more.
        before: what was newest where the ranges begin; a partition that is not named had no row.
        """
        start = at_place(before, *place[:2])
        newest = _of_range(F.when(good, F.unix_micros(EVENT_TIME)), start)
        return self._judged(rows, good, newest)

    @property
    def watermark(self) -> Column:
        """The watermark of a row that has NEWEST; null before the first row of its partition."""
        return F.timestamp_micros(quoted(NEWEST)) - F.lit(self.lateness)

    def _judged(self, rows: DataFrame, good: Column, newest: Column) -> DataFrame:
        # The instant is asked of rows that count alone: what is in the others may raise.
        counts = good & ~quoted(FILTERED) if FILTERED in rows.columns else good
        late = F.when(counts, self.late_at <= self.watermark)
        marked = rows.withColumn(NEWEST, newest)
        return marked.withColumn(LATE, F.coalesce(late, F.lit(False)))


def told(newest: EventTimes) -> str:
    """Return what PROPERTY says for the Spark jobs of a batch."""
    return json.dumps(newest)


def running(times: pa.Array, before: int) -> tuple[pa.Array, int]:
    """Return the newest time before each, null where there is none, and the newest of all.

    times: in microseconds; null counts for nothing. before: the newest until now.
    """
    known = times.fill_null(_NONE).to_numpy()
    reached = np.maximum.accumulate(np.concatenate(([before], known)))
    earlier = reached[:-1]
    return pa.array(earlier, pa.int64(), mask=earlier == _NONE), int(reached[-1])


def _of_stream(topic: str, partition: int) -> Callable[..., Column]:
    """Return the running maximum over a stream's one partition."""

    def newest(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        reached = _at_start(topic, partition)
        for times in batches:
            earlier, reached = running(times, reached)
            yield earlier

    return arrow_function(newest, "bigint", stays=True)


def _of_range(times: Column, start: Column) -> Column:
    """Return the running maximum over what a task reads, from where its range begins."""

    def newest(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        reached = _NONE
        for times, starts in batches:
            if reached == _NONE and len(starts) and starts[0].is_valid:
                reached = starts[0].as_py()
            earlier, reached = running(times, reached)
            yield earlier

    return arrow_function(newest, "bigint", stays=True)(times, start)


def _at_start(topic: str, partition: int) -> int:
    """Return what was newest in a partition where the batch begins that this task is of."""
    task = TaskContext.get()
    said = None if task is None else task.getLocalProperty(PROPERTY)
    if said is None:
        raise RuntimeError(f"a task reads {topic}-{partition} and does not know {PROPERTY}.")
    found = json.loads(said).get(topic, {}).get(str(partition))
    return _NONE if found is None else int(found)
