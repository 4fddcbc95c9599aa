"""The plan of a backfill: its offsets, and the handover time between its results and the stream's.

Results before the handover time belong to the backfill, all others to the stream. The handover time
is at or before the watermark of a stream that has read the same records, so no row within the
watermark delay is late for it. It is also an instant at which rows become late, such as the end of
a window, so a later row that is not late by then changes no result of the backfill.

The stream reads again the rows that its results need. These rows are, in each partition, the rows
from the first one at or after the start time. No earlier row is newer, so deterministic lateness
follows from the rows that are read again. They must all be in the first batch of the stream: Spark
drops no late rows there, so that no row of the backfill becomes a late row.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import Backfill
from ..commit.batch import UNIX_EPOCH, BatchPlan
from ..durations import microseconds
from ..errors import CheckpointError
from ..job.job import Job
from ..joins import IntervalJoin
from ..offsets import (
    Offsets,
    count_offsets,
    iterate_partitions,
    map_partitions,
    merge_partitions,
    partition_offset,
    select_topics,
)
from ..sources import Input
from ..sources.event_time_column import EVENT_TIME
from ..sources.processed_offsets import ProcessedOffsets
from ..sources.range_stats import collect_max_event_times, first_offsets_since
from ..sources.topics import fetch_topic_states, open_kafka_client
from ..startup.environment import explain_unreadable
from ..transform import Stateless, Transform
from ..windows import Session, WindowAggregation

_LOG = logging.getLogger(__name__)
_MICROSECOND = timedelta(microseconds=1)
_LATEST_OFFSET = -1
_EARLIEST_OFFSET = -2
_MAX_TAIL_OFFSETS = 10_000
"""The last offsets of a partition that are read at most, to find its newest event time."""
_MAX_TOTAL_TAIL_OFFSETS = 200_000
"""The last offsets of all partitions that are read, beyond _MIN_TAIL_OFFSETS per partition."""
_MIN_TAIL_OFFSETS = 1_000
_STEPS_PER_LOOKBACK = 64
_LOOKBACK_POWERS = 52
_GUESSED_SESSION_GAPS = 8
"""The first guess of how many gaps before the handover time an open session started."""


def backfill_watermark(job: Job, spark: SparkSession, start: Offsets, end: Offsets) -> int | None:
    """Return the watermark of a stream that has read a range of offsets, in microseconds.

    It is the smallest of the partitions' newest event times, minus the watermark delay. None if
    such a stream might have no watermark. Only the last offsets of each partition are read; if the
    newest event is earlier, the backfill covers fewer results, which remain correct.
    """
    watermarks = []
    for job_input in job.inputs.values():
        ends = input_offsets(job_input, end)
        partition_count = sum(map(len, ends.values()))
        tail_share = _MAX_TOTAL_TAIL_OFFSETS // max(1, partition_count)
        tail_length = min(_MAX_TAIL_OFFSETS, max(_MIN_TAIL_OFFSETS, tail_share))
        tail_start = {
            topic: {
                part: max(partition_offset(start, topic, part), stop - tail_length)
                for part, stop in parts.items()
            }
            for topic, parts in ends.items()
        }
        rows = job_input.unfiltered_rows(spark, tail_start, ends)
        max_event_times = collect_max_event_times(rows, job_input.position_columns)
        times = [time for _, _, time in iterate_partitions(max_event_times)]
        if not times or (job_input.watermarks != "global" and len(times) < partition_count):
            return None
        watermark_delay = microseconds(job_input.watermark_delay, "watermark_delay", min_value=0)
        watermarks.append(min(times) - watermark_delay)
    return min(watermarks)


def last_lateness_boundary(spark: SparkSession, transform: Transform, until: int) -> int | None:
    """Return the last instant up to `until` at which rows become late, in microseconds."""
    window = transform.window if isinstance(transform, WindowAggregation) else transform
    distances = {1 << power for power in range(_LOOKBACK_POWERS)}
    if transform.lookback is not None:
        lookback = transform.lookback // _MICROSECOND
        distances |= {
            max(1, lookback * step // _STEPS_PER_LOOKBACK)
            for step in range(1, 2 * _STEPS_PER_LOOKBACK)
        }
    instants = spark.createDataFrame(
        [(until - distance,) for distance in sorted(distances)], "at bigint"
    )
    late = window.late_at(F.timestamp_micros("at"))
    assert late is not None  # Job checks this at construction.
    late_micros = F.unix_micros(late)
    row = instants.where(late_micros <= F.lit(until)).agg(F.max(late_micros)).head()
    return None if row is None else row[0]


def input_offsets(job_input: Input, offsets: Offsets) -> Offsets:
    """Return the offsets of the topics of an input."""
    source = job_input.source
    return offsets if source.pattern else select_topics(offsets, source.topic_names)


def plan_backfill(job: Job, spark: SparkSession) -> Backfill | None:
    """Return the plan of a backfill; None if there are too few records, or no watermark yet."""
    start, end = _available_offsets(job, spark)
    record_count = count_offsets(start, end)
    if job.backfill_threshold is None or record_count <= job.backfill_threshold:
        return None
    backfill = Backfill(
        query=str(uuid4()), start=start, end=end, handover_start=end, handover_time=None
    )
    if job.transform is None or isinstance(job.transform, Stateless):
        return backfill
    limit = backfill_watermark(job, spark, start, end)
    handover_time = None if limit is None else last_lateness_boundary(spark, job.transform, limit)
    if handover_time is None or handover_time - lookback_micros(job) <= 0:
        _LOG.warning(
            "%s: %s records are read as a stream, without a backfill, because there is no "
            "watermark yet",
            job.name,
            record_count,
        )
        return None
    return replace(backfill, handover_time=handover_time)


def _available_offsets(job: Job, spark: SparkSession) -> tuple[Offsets, Offsets]:
    start: Offsets = {}
    end: Offsets = {}
    for job_input in job.inputs.values():
        source = job_input.source
        with explain_unreadable(source, "offsets"), open_kafka_client(spark, source) as kafka:
            states = fetch_topic_states(kafka, source)
            all_parts = {name: range(state.partitions) for name, state in states.items()}
            parts = source.partitions or all_parts
            earliest = kafka.earliest_offsets(parts)
            latest = kafka.latest_offsets(parts)
        requested = source.start if isinstance(source.start, Mapping) else {}
        for topic, part, stop in iterate_partitions(latest):
            special_offsets = {_EARLIEST_OFFSET: earliest[topic][part], _LATEST_OFFSET: stop}
            first = requested.get(topic, {}).get(part, _EARLIEST_OFFSET)
            first = special_offsets.get(first, first)
            start.setdefault(topic, {})[part] = first
            end.setdefault(topic, {})[part] = max(stop, first)
    return start, end


def lookback_micros(job: Job, name: str | None = None) -> int:
    """Return how far before the handover time rows of one or any input matter to the stream.

    0 for sessions, whose lookback is determined from their rows.
    """
    transform = job.transform
    if name is not None and isinstance(transform, IntervalJoin):
        return transform.lookbacks[list(job.inputs).index(name)] // _MICROSECOND
    if transform is None or transform.lookback is None or is_session_job(job):
        return 0
    return transform.lookback // _MICROSECOND


def is_session_job(job: Job) -> bool:
    """Return whether a job's results are sessions."""
    return session_gap_micros(job) > 0


def session_gap_micros(job: Job) -> int:
    """Return the gap of a job's sessions, in microseconds; 0 if its results are not sessions."""
    window = job.transform.window if isinstance(job.transform, WindowAggregation) else None
    # Jobs with a gap per event do not support a backfill.
    if not isinstance(window, Session) or isinstance(window.gap, Column):
        return 0
    return microseconds(window.gap, "gap")


def offsets_processed_by_backfill(job: Job, backfill: Backfill | None) -> ProcessedOffsets | None:
    """Return the offsets that the backfill has read; None if the stream reads nothing again."""
    if backfill is None or backfill.handover_time is None or job.transform is None:
        return None
    if job.late_by_log:
        # The log decides which rows are late, also for results of the backfill.
        return ProcessedOffsets(end=backfill.end)
    late_at = job.transform.late_at(F.col(EVENT_TIME))
    handover_time = F.timestamp_micros(F.lit(backfill.handover_time))
    return ProcessedOffsets(
        end=backfill.end, is_late=None if late_at is None else late_at <= handover_time
    )


def as_single_batch(job: Job) -> Job:
    """Return the job with inputs that are read in one batch, without a record limit."""
    inputs = {
        name: replace(job_input, source=replace(job_input.source, max_records_per_batch=None))
        for name, job_input in job.inputs.items()
    }
    return replace(job, inputs=inputs)


def with_backfill_watermark(plan: BatchPlan, backfill: Backfill) -> BatchPlan:
    """Return a plan of the stream with the handover time as its least watermark for late rows.

    Rows that would change a result of the backfill are late.

    Raises CheckpointError if the first batch does not read all offsets of the backfill.
    """
    if backfill.handover_time is None:
        return plan
    short = [
        f"{topic}-{part}: {partition_offset(plan.end, topic, part)} of {stop}"
        for topic, part, stop in iterate_partitions(backfill.end)
        if plan.number == 1 and partition_offset(plan.end, topic, part) < stop
    ]
    if short:
        raise CheckpointError(
            f"the first batch of the stream ends before the backfill: {', '.join(short)}",
            "the first batch must read again all rows that the stream's results need. Nothing of "
            "this batch was written.",
            "remove source options that limit the size of a batch; and use a new checkpoint and "
            "new tables.",
        )
    handover_time = UNIX_EPOCH + timedelta(microseconds=backfill.handover_time)
    return replace(plan, late_watermark=max(plan.late_watermark, handover_time))


def without_backfilled_offsets(plan: BatchPlan, backfill_end: Offsets) -> BatchPlan:
    """Return a plan without the offsets that the backfill has read."""

    def start_after_backfill(topic: str, part: int, stop: int) -> int:
        start = partition_offset(plan.start, topic, part)
        return min(stop, max(start, partition_offset(backfill_end, topic, part)))

    return replace(plan, start=map_partitions(plan.end, start_after_backfill))


def reread_start_time(job: Job, handover_time: int, name: str) -> int:
    """Return the event time from which an input is read again after a handover.

    For sessions it is a guess, because the open sessions are known only after the backfill.
    """
    session_guess = _GUESSED_SESSION_GAPS * session_gap_micros(job)
    return handover_time - (session_guess or lookback_micros(job, name))


def open_session_offsets(
    job: Job, spark: SparkSession, backfill: Backfill, open_sessions: DataFrame, guessed_start: int
) -> Offsets | None:
    """Return the first offsets of open sessions; None if the stream must read all records.

    backfill: the plan, with the offsets of the guessed start.
    open_sessions: the sessions that are not results of the backfill.
    """
    # The smallest of nulls and numbers is the smallest number.
    handover_time = F.lit(backfill.handover_time or 0)
    session_start = F.min(F.unix_micros(F.col("window")["start"]))
    earliest = open_sessions.agg(F.least(session_start, handover_time)).head()
    earliest_start = 0 if earliest is None else earliest[0]
    if earliest_start <= 0:
        _LOG.warning(
            "%s: a session is open since 1970; all records are read as a stream, without a "
            "backfill",
            job.name,
        )
        return None
    if guessed_start <= earliest_start:
        return backfill.handover_start
    # Windows have one input. Its offsets from the guessed start are known already.
    (job_input,) = job.inputs.values()
    rows = job_input.unfiltered_rows(spark, backfill.start, backfill.handover_start)
    first_offsets = first_offsets_since(rows, job_input.position_columns, earliest_start)
    known_topics = select_topics(first_offsets, backfill.handover_start)
    return merge_partitions([backfill.handover_start, known_topics], min)
