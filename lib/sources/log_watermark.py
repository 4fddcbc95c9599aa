"""Deterministic lateness: the earlier records of its partition decide whether a row is late.

The watermark of a row is the maximum event time of the records before it in its partition, minus
the watermark delay. It is a function of the log and does not depend on batch boundaries. Spark's
watermark of the partition, which comes from earlier batches, is never ahead of it; a row that is on
time here is on time for every operator.

Spark has no running maximum over a stream, so numpy computes it in Python, in one task per
partition.
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

from ..arrow_kernels import arrow_udf
from ..columns import quoted_column
from ..offsets import EventTimes, partition_value
from .event_time_column import EVENT_TIME, FILTERED, LATE

PREVIOUS_MAX = "__tidegate_previous_max"
"""The maximum event time before a row in its partition, in microseconds; null without one."""
MAX_TIMES_PROPERTY = "tidegate.max_event_times"
"""The local property of a batch's Spark jobs with the maximum event times at its start."""
_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class LogLateness:
    """The rule of deterministic lateness.

    late_at: the watermark from which on a row is late, as an expression over its columns.
    watermark_delay: the delay of the watermark behind the maximum event time.
    """

    late_at: Column
    watermark_delay: timedelta

    def flag_stream(
        self, rows: DataFrame, is_good: Column, topic_partition: tuple[str, int]
    ) -> DataFrame:
        """Add PREVIOUS_MAX and LATE to the rows of a stream that reads one partition.

        The Spark jobs of a batch need the local property MAX_TIMES_PROPERTY, by `to_property`.
        """
        topic, partition = topic_partition
        times = F.when(is_good, F.unix_micros(EVENT_TIME))
        previous_max = _stream_running_max(topic, partition)(times)
        return self._with_flags(rows, is_good, previous_max)

    def flag_range(
        self,
        rows: DataFrame,
        is_good: Column,
        log_position: Sequence[Column],
        max_event_times: EventTimes,
    ) -> DataFrame:
        """Add PREVIOUS_MAX and LATE to the rows of offset ranges, each read by one task.

        log_position: the columns of a row's topic and partition, first.
        max_event_times: the maximum event time of each partition before its range, if there is one.
        """
        start_max = partition_value(max_event_times, *log_position[:2])
        previous_max = _range_running_max(F.when(is_good, F.unix_micros(EVENT_TIME)), start_max)
        return self._with_flags(rows, is_good, previous_max)

    @property
    def watermark(self) -> Column:
        """The watermark of a row that has PREVIOUS_MAX; null for the first row of its partition."""
        return F.timestamp_micros(quoted_column(PREVIOUS_MAX)) - F.lit(self.watermark_delay)

    def _with_flags(self, rows: DataFrame, is_good: Column, previous_max: Column) -> DataFrame:
        # Only good rows evaluate late_at; it may raise for the values of others.
        is_counted = is_good & ~quoted_column(FILTERED) if FILTERED in rows.columns else is_good
        is_late = F.when(is_counted, self.late_at <= self.watermark)
        with_previous_max = rows.withColumn(PREVIOUS_MAX, previous_max)
        return with_previous_max.withColumn(LATE, F.coalesce(is_late, F.lit(False)))


def to_property(max_event_times: EventTimes) -> str:
    """Return the value of MAX_TIMES_PROPERTY for the Spark jobs of a batch."""
    return json.dumps(max_event_times)


def running_max(times: pa.Array, previous_max: int) -> tuple[pa.Array, int]:
    """Return the maximum before each time, null if there is none, and the maximum of all.

    times: in microseconds; nulls are ignored. previous_max: the maximum of all earlier times.
    """
    filled_times = times.fill_null(_NO_TIME).to_numpy()
    maxima = np.maximum.accumulate(np.concatenate(([previous_max], filled_times)))
    earlier_maxima = maxima[:-1]
    return pa.array(earlier_maxima, pa.int64(), mask=earlier_maxima == _NO_TIME), int(maxima[-1])


def _stream_running_max(topic: str, partition: int) -> Callable[..., Column]:
    """Return the running maximum over the only partition of a stream."""

    def previous_maxima(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        current_max = _max_at_batch_start(topic, partition)
        for times in batches:
            earlier_maxima, current_max = running_max(times, current_max)
            yield earlier_maxima

    return arrow_udf(previous_maxima, "bigint", nondeterministic=True)


def _range_running_max(times: Column, start_max: Column) -> Column:
    """Return the running maximum over the range of a task, from the maximum before it on."""

    def previous_maxima(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        current_max = _NO_TIME
        for times, start_maxima in batches:
            if current_max == _NO_TIME and len(start_maxima) and start_maxima[0].is_valid:
                current_max = start_maxima[0].as_py()
            earlier_maxima, current_max = running_max(times, current_max)
            yield earlier_maxima

    return arrow_udf(previous_maxima, "bigint", nondeterministic=True)(times, start_max)


def _max_at_batch_start(topic: str, partition: int) -> int:
    """Return the maximum event time of a partition at the start of this task's batch."""
    task = TaskContext.get()
    property_value = None if task is None else task.getLocalProperty(MAX_TIMES_PROPERTY)
    if property_value is None:
        raise RuntimeError(
            f"the task that reads {topic}-{partition} lacks the property {MAX_TIMES_PROPERTY}"
        )
    max_time = json.loads(property_value).get(topic, {}).get(str(partition))
    return _NO_TIME if max_time is None else int(max_time)
