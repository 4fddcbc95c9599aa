"""Monitoring of a job's topics: re-created topics, lost records, new partitions, and lag."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ..commit.batch import BatchPlan
from ..errors import SourceError, TidegateError
from ..job.job import Job
from ..jvm import KafkaClient, TopicState
from ..kafka.client_options import describe_similar_topics
from ..offsets import Offsets
from ..sources.topics import (
    fetch_topic_states,
    open_kafka_client,
    request_topic_states,
    require_same_topics,
)
from ..spark.spark_errors import is_data_loss_error, translate_error
from ..telemetry.batch_progress import BatchProgress
from ..telemetry.lag import measure_lag, merge_lags
from ..telemetry.run_metrics import RunMetrics
from .offset_gaps import OffsetGap, data_loss_error, find_offset_gaps
from .streams import InputStream, input_plan

_LOG = logging.getLogger(__name__)
_PARTITION_CHECK_SECONDS = 10.0
_POLL_INTERVAL_SECONDS = 15.0


class TopicMonitor:
    """Monitors the topics of a run, with one Kafka client per input. A context manager.

    Checks are skipped while a broker does not answer, because Spark waits for it and reports the
    failure. Inputs that record lost offsets require an answer.

    recorded_ids: the ids of the topics that the checkpoint has read, by name.
    """

    def __init__(
        self,
        job: Job,
        inputs: Mapping[str, Sequence[InputStream]],
        spark: SparkSession,
        recorded_ids: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._clock = clock
        self._last_partition_check = clock()
        self._job = job
        self._sources = {name: job_input.source for name, job_input in job.inputs.items()}
        self._recording_inputs = [
            name for name, source in self._sources.items() if source.on_data_loss == "record"
        ]
        # A watermark per partition fixes the partitions of an input until the job starts again.
        self._read_partitions = {
            name: {source_name for stream in inputs[name] for source_name in stream.source_names}
            for name, job_input in job.inputs.items()
            if job_input.watermarks != "global" and not job_input.source.partitions
        }
        self._clients: dict[str, KafkaClient] = {}
        self._pending_states: dict[str, Callable[[], dict[str, TopicState]]] = {}
        self._recorded_ids = dict(recorded_ids)
        self._expected_ids = {
            name: {topic: id for topic, id in recorded_ids.items() if topic in source.topic_names}
            for name, source in self._sources.items()
        }
        self._warned_partitions: set[str] = set()

    def __enter__(self) -> TopicMonitor:
        for name in self._sources:
            with suppress(OSError):
                self._record_topic_ids(name, self._read_states(name))
        return self

    def __exit__(self, *_: object) -> None:
        for kafka in self._clients.values():
            kafka.close()

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of all topics, by name, as far as they are known."""
        return {
            topic: topic_id
            for expected_ids in self._expected_ids.values()
            for topic, topic_id in expected_ids.items()
        }

    def recorded_gaps_in(self, plan: BatchPlan) -> list[OffsetGap]:
        """Return the offset gaps of a batch in inputs with on_data_loss="record".

        Must be called before the batch is read. Raises SourceError for a topic whose log ends
        before the batch, and for a broker that does not answer.
        """
        return self._find_gaps(plan, self._recording_inputs)

    def request_topic_states(self) -> None:
        """Request the topic states for `require_unchanged` in advance, so that it does not wait.

        Must be called after the batch, without its gaps, is read.
        """
        for name, source in self._sources.items():
            with suppress(OSError):
                self._pending_states[name] = request_topic_states(self.client(name), source)

    def require_unchanged(self, plan: BatchPlan) -> None:
        """Refuse a batch whose topics were re-created or lost records while they were read.

        Must be called before the batch is written. Requests any topic states that
        `request_topic_states` has not requested. Raises SourceError.
        """
        for name in self._sources:
            read_states = self._pending_states.pop(name, None)
            with suppress(OSError):
                states = self._read_states(name) if read_states is None else read_states()
                self._record_topic_ids(name, states)
                require_same_topics(self._expected_ids[name], states)
        new_gaps = self._find_gaps(plan, self._recording_inputs)
        if new_gaps:
            raise data_loss_error(new_gaps, records_gaps=True)

    @contextmanager
    def explain_data_loss(self, plan: BatchPlan) -> Iterator[None]:
        """Raise an error that names the lost offsets if the block fails because of them."""
        try:
            yield
        except Exception as error:
            explained = self._data_loss(error, plan)
            if explained is None:
                raise
            raise explained from error

    def _data_loss(self, error: Exception, plan: BatchPlan) -> SourceError | None:
        if isinstance(error, TidegateError) or not is_data_loss_error(translate_error(error)):
            return None
        stopping_inputs = [name for name in self._sources if name not in self._recording_inputs]
        for names in (stopping_inputs, self._recording_inputs):
            with suppress(SourceError):
                gaps = self._find_gaps(plan, names)
                if gaps:
                    return data_loss_error(gaps, records_gaps=names is self._recording_inputs)
        return None

    def warn_new_partitions(self) -> None:
        """Log a warning about partitions that were added to a topic with a watermark each."""
        if self._clock() - self._last_partition_check < _PARTITION_CHECK_SECONDS:
            return
        self._last_partition_check = self._clock()
        for name, read_partitions in self._read_partitions.items():
            states: Mapping[str, TopicState] = {}
            with suppress(OSError):
                states = self._read_states(name)
            current_partitions = {
                f"{topic}-{part}"
                for topic, state in states.items()
                for part in range(state.partitions)
            }
            added_partitions = sorted(
                current_partitions - read_partitions - self._warned_partitions
            )
            if added_partitions:
                self._warned_partitions.update(added_partitions)
                _LOG.warning(
                    "%s: new partitions %s are read after the next start of the job",
                    name,
                    ", ".join(added_partitions),
                )

    def _find_gaps(self, plan: BatchPlan, names: Sequence[str]) -> list[OffsetGap]:
        gaps: list[OffsetGap] = []
        for name in names:
            input_range = input_plan(self._job, name, plan)
            gaps += find_offset_gaps(
                input_range.start, input_range.end, self._earliest_offsets(name, input_range.end)
            )
        return gaps

    def _record_topic_ids(self, name: str, states: Mapping[str, TopicState]) -> None:
        for topic, state in states.items():
            self._expected_ids[name].setdefault(topic, self._recorded_ids.get(topic, state.id))

    def client(self, name: str) -> KafkaClient:
        """Return the Kafka client of an input; it is closed at the end of the run."""
        if name not in self._clients:
            self._clients[name] = open_kafka_client(self._spark, self._sources[name])
        return self._clients[name]

    def _read_states(self, name: str) -> dict[str, TopicState]:
        return fetch_topic_states(self.client(name), self._sources[name])

    def _earliest_offsets(self, name: str, partitions: Offsets) -> Offsets:
        try:
            return self.client(name).earliest_offsets(partitions)
        except OSError as error:
            raise SourceError(
                f"the earliest offsets of the input {name!r} cannot be read",
                f"{error}; on_data_loss='record' requires them.",
                "check the address of the broker and the options of the Kafka client.",
            ) from error


def missing_topic_error(job: Job, spark: SparkSession) -> SourceError | None:
    """Return the error for topics of a job that the broker does not have.

    None if all topics exist, or the broker does not answer.
    """
    for job_input in job.inputs.values():
        source = job_input.source
        try:
            with open_kafka_client(spark, source) as kafka:
                existing_topics = kafka.list_topics()
        except OSError:
            continue
        missing = [name for name in source.topic_names if name not in existing_topics]
        if missing and not source.pattern:
            return SourceError(
                f"the topic {', '.join(missing)} does not exist at {source.bootstrap_servers}",
                describe_similar_topics(missing[0], existing_topics),
                "create the topic, or correct the topics of the input.",
            )
    return None


@dataclass
class LagMonitor:
    """Measures the consumer lag of a run at its start, then every 15 seconds.

    Does nothing if the run has no metrics and no report. If a broker does not answer, the lag in
    rows is the one that Spark reports, and the lag in seconds is unknown.
    """

    job: Job
    topic_monitor: TopicMonitor
    run_metrics: RunMetrics
    _next_poll_at: float = float("-inf")

    def poll(self, progress: BatchProgress) -> None:
        """Measure the lag if that is due, and store it in the metrics of the run."""
        if not self.run_metrics.detailed or time.monotonic() < self._next_poll_at:
            return
        inputs = self.job.inputs
        # Inputs that have no report are not measured.
        offsets_by_input: dict[str, Offsets] = {}
        for (topic, part), offset in progress.read_offsets.items():
            for name, job_input in inputs.items():
                if len(inputs) == 1 or topic in job_input.source.topic_names:
                    offsets_by_input.setdefault(name, {}).setdefault(topic, {})[part] = offset
        try:
            lags = [
                measure_lag(self.topic_monitor.client(name), offsets, int(time.time() * 1000))
                for name, offsets in offsets_by_input.items()
            ]
        except OSError:
            self.run_metrics.set_consumer_lag(None)
        else:
            self.run_metrics.set_consumer_lag(merge_lags(lags))
        self._next_poll_at = time.monotonic() + _POLL_INTERVAL_SECONDS
