"""The streams of a job: one per input, or one per partition, each with its own watermark.

With watermarks="log", a row is late by the rows before it in its partition: each batch starts from
the maximum event times of the partitions before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import CheckpointLineage
from ..checkpoint.offset_log import last_planned_ends
from ..commit.batch import BatchPlan
from ..durations import microseconds
from ..errors import ArgumentError, CheckpointError, SourceError
from ..job.job import Job
from ..offsets import EventTimes, Offsets, iterate_partitions, merge_partitions, select_topics
from ..sources import Heartbeats, Input, KafkaSource
from ..sources.event_time_column import EVENT_TIME
from ..sources.input import OBSERVATION
from ..sources.log_watermark import LogLateness
from ..sources.processed_offsets import ProcessedOffsets
from ..sources.topics import topic_states
from ..startup.environment import explain_unreadable


@dataclass(frozen=True)
class InputStream:
    """A stream with its own watermark; the watermark of the query is the minimum over its streams.

    source_names: the topics of the stream, or its partitions as "topic-0".
    job_input: the input, restricted to the partitions of the stream.
    observation: the name of the observed row counts.
    """

    source_names: Sequence[str]
    job_input: Input
    observation: str
    heartbeats: Heartbeats | None

    @property
    def name(self) -> str:
        """The name of the stream in metrics."""
        return ", ".join(self.source_names)

    @property
    def watermark_delay(self) -> int:
        """The watermark delay, in microseconds."""
        return microseconds(self.job_input.watermark_delay, "watermark_delay", min_value=0)


def build_streams(job: Job, spark: SparkSession) -> dict[str, list[InputStream]]:
    """Return the streams of each input of a job, by input name."""
    planned_ends: list[Offsets] = []
    if any(job_input.watermarks != "global" for job_input in job.inputs.values()):
        planned_ends = last_planned_ends(spark, job.locations.checkpoint)
    return {
        name: _input_streams(job, spark, index, job_input, planned_ends)
        for index, (name, job_input) in enumerate(job.inputs.items())
    }


def input_plan(job: Job, name: str, plan: BatchPlan) -> BatchPlan:
    """Return the plan of a batch with the offsets of one input only."""
    if len(job.inputs) == 1:
        return plan
    return plan.for_topics(job.inputs[name].source.topic_names)


def build_input_frames(
    job: Job,
    inputs: Mapping[str, Sequence[InputStream]],
    spark: SparkSession,
    processed_offsets: ProcessedOffsets | None,
) -> dict[str, DataFrame]:
    """Return one DataFrame per input.

    processed_offsets: the offsets that a backfill has read.
    """
    lateness = log_lateness_by_input(job)
    frames = {}
    for name, streams in inputs.items():
        stream_frames = [
            stream.job_input.stream(
                spark, stream.observation, stream.heartbeats, processed_offsets, lateness.get(name)
            )
            for stream in streams
        ]
        frames[name] = reduce(DataFrame.unionByName, stream_frames)
    return frames


def _input_streams(
    job: Job, spark: SparkSession, index: int, job_input: Input, planned_ends: Sequence[Offsets]
) -> list[InputStream]:
    is_global = job_input.watermarks == "global"
    stream_inputs = [job_input] if is_global else _partition_inputs(spark, job_input, planned_ends)
    streams = []
    for number, stream_input in enumerate(stream_inputs):
        source_names = stream_input.source.topic_names
        if not is_global:
            partitions = stream_input.source.partitions or {}
            source_names = [f"{topic}-{part}" for topic in partitions for part in partitions[topic]]
        label = f"{index}" if is_global else f"{index}/{number}"
        heartbeats = None
        if job_input.idle_timeout is not None:
            folder = label.replace("/", "-")
            heartbeats = Heartbeats(f"{job.locations.checkpoint}/heartbeats/{folder}")
        observation = f"{OBSERVATION} {label}"
        streams.append(InputStream(source_names, stream_input, observation, heartbeats))
    return streams


def _partition_inputs(
    spark: SparkSession, job_input: Input, planned_ends: Sequence[Offsets]
) -> list[Input]:
    source = job_input.source
    partition_counts = {} if source.partitions else _read_partition_counts(spark, source)
    previous_shares = _shares_in_checkpoint(planned_ends, source)
    if job_input.late_by_log:
        _require_no_new_partitions(previous_shares, source, partition_counts)
    shares = source.partition_shares(partition_counts, previous_shares)
    return [replace(job_input, source=share) for share in shares]


def _shares_in_checkpoint(planned_ends: Sequence[Offsets], source: KafkaSource) -> list[Offsets]:
    shares: list[Offsets] = []
    seen = set[tuple[tuple[str, int], ...]]()
    for offsets in planned_ends:
        own_offsets = select_topics(offsets, source.topic_names)
        partitions = tuple(
            sorted((topic, part) for topic, part, _ in iterate_partitions(own_offsets))
        )
        # A source that the transform uses twice is recorded twice.
        if partitions and partitions not in seen:
            seen.add(partitions)
            shares.append(own_offsets)
    return shares


def _require_no_new_partitions(
    previous_shares: Sequence[Offsets], source: KafkaSource, partition_counts: Mapping[str, int]
) -> None:
    current = source.partitions or {
        topic: range(count) for topic, count in partition_counts.items()
    }
    streamed = {
        (topic, part) for share in previous_shares for topic, part, _ in iterate_partitions(share)
    }
    new_partitions = [
        f"{topic}-{part}"
        for topic, parts in current.items()
        for part in parts
        if previous_shares and (topic, part) not in streamed
    ]
    if new_partitions:
        raise CheckpointError(
            f"the checkpoint does not have the partitions {', '.join(new_partitions)}",
            "with watermarks='log', a checkpoint cannot add partitions. Nothing was written.",
            "name the previous partitions in the source; or use a new checkpoint and new tables.",
        )


def _read_partition_counts(spark: SparkSession, source: KafkaSource) -> dict[str, int]:
    with explain_unreadable(source, "partitions"):
        states = topic_states(spark, source)
    missing_topics = [name for name in source.topic_names if name not in states]
    if missing_topics:
        raise SourceError(
            f"the topic {', '.join(missing_topics)} does not exist",
            f"the broker at {source.bootstrap_servers} does not have it, and a watermark per "
            "partition requires the number of its partitions.",
            "create the topic, or correct the topics of the input.",
        )
    return {name: state.partitions for name, state in states.items()}


def log_lateness_by_input(job: Job) -> dict[str, LogLateness]:
    """Return the lateness test of each input with watermarks="log".

    Raises ArgumentError for a transform without late rows.
    """
    if not job.late_by_log:
        return {}
    late_at = None if job.transform is None else job.transform.late_at(F.col(EVENT_TIME))
    if late_at is None:
        raise ArgumentError(
            f"invalid watermarks: 'log' with {type(job.transform).__name__}",
            "a transform that defines late rows",
            "watermarks='partition'",
        )
    # All inputs have watermarks="log", or none.
    delays = {
        name: microseconds(job_input.watermark_delay, "watermark_delay", min_value=0)
        for name, job_input in job.inputs.items()
    }
    return {
        name: LogLateness(late_at, timedelta(microseconds=delay)) for name, delay in delays.items()
    }


def max_event_times_before(job: Job, lineage: CheckpointLineage, number: int) -> EventTimes | None:
    """Return the maximum event times before a batch; None without deterministic lateness.

    number: the number of the batch in the checkpoint.

    Raises CheckpointError if the checkpoint has not recorded them.
    """
    if not job.late_by_log:
        return None
    max_event_times: EventTimes | None = {}
    if number:
        max_event_times = lineage.max_event_times.get(number - 1)
    elif lineage.resume_point is not None:
        max_event_times = lineage.resume_point.max_event_times
    elif lineage.backfill is not None:
        max_event_times = lineage.backfill.max_event_times_at_handover
    if max_event_times is None:
        raise CheckpointError(
            f"the late rows of batch {number} cannot be determined",
            f"{job.locations.checkpoint} has no maximum event times, because it was created "
            "without watermarks='log'. Nothing was written.",
            "use a new checkpoint and new tables.",
        )
    return max_event_times


def max_event_times_after(
    previous_event_times: EventTimes | None, batch_event_times: Iterable[EventTimes]
) -> EventTimes | None:
    """Return the maximum event times after a batch, from those before it and those within it.

    >>> max_event_times_after({"clicks": {0: 5, 1: 9}}, [{"clicks": {0: 7}}, {"clicks": {1: 8}}])
    {'clicks': {0: 7, 1: 9}}
    """
    if previous_event_times is None:
        return None
    return merge_partitions([previous_event_times, *batch_event_times], max)
