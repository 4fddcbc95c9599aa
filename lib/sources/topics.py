"""The topics of a source at its broker, and the comparison with the recorded topic ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from ..errors import SourceError
from ..jvm import KafkaClient, TopicState
from ..offsets import Offsets, iterate_partitions, partition_offset
from ..spark.spark_errors import truncated_log_error
from .kafka_source import KafkaSource

_NEW_CHECKPOINT_HINT = (
    "read the current topic from its start, with a new checkpoint and new tables; the tables of "
    "the former topic remain unchanged."
)


def open_kafka_client(spark: SparkSession, source: KafkaSource) -> KafkaClient:
    """Return a client for the broker of a source; the caller closes it."""
    return KafkaClient(spark, source.bootstrap_servers, source.options)


def topic_states(spark: SparkSession, source: KafkaSource) -> dict[str, TopicState]:
    """Return the id and the number of partitions of each existing topic of a source.

    Raises OSError if the broker does not answer.
    """
    with open_kafka_client(spark, source) as client:
        return fetch_topic_states(client, source)


def fetch_topic_states(client: KafkaClient, source: KafkaSource) -> dict[str, TopicState]:
    """Return the topic states by an open client, as `topic_states` does."""
    return request_topic_states(client, source)()


def request_topic_states(
    client: KafkaClient, source: KafkaSource
) -> Callable[[], dict[str, TopicState]]:
    """Request the topic states, and return a function that waits for the answer."""
    names = client.list_topics(source.pattern) if source.pattern else source.topic_names
    return client.request_topic_states(names)


def reads_topic(source: KafkaSource, topic: str, partition: int | None = None) -> bool:
    """Return whether a source reads a topic, or one of its partitions."""
    if source.pattern:
        # Python cannot compile every pattern of Java; Spark decides about others.
        with suppress(re.error):
            return re.fullmatch(source.pattern, topic) is not None
        return True
    if source.partitions:
        partitions = source.partitions.get(topic, ())
        return bool(partitions) if partition is None else partition in partitions
    return topic in source.topics


def require_not_truncated(read: Offsets, ends: Offsets) -> None:
    """Refuse a partition whose log ends before the offset up to which it was read.

    read: the offsets up to which partitions were read. ends: where logs end now; other partitions
        are not compared.

    Raises SourceError.

    >>> require_not_truncated({"clicks": {0: 5, 1: 7}}, {"clicks": {0: 5}})
    """
    for topic, partition, end in iterate_partitions(ends):
        offset = partition_offset(read, topic, partition)
        if end < offset:
            raise truncated_log_error(f"{topic}-{partition}", offset, end)


def require_same_topics(recorded: Mapping[str, str], current: Mapping[str, TopicState]) -> None:
    """Refuse topics that were deleted, or deleted and created again, since they were read.

    The offsets of a topic that was created again start at 0, so a stream that continued would skip
    records. A topic without a recorded id is new, and can be read.

    recorded: the topic ids when the topics were read. current: their states now.

    Raises SourceError.
    """
    missing = [name for name in recorded if name not in current]
    if missing:
        listed = ", ".join(f"{name} (id {recorded[name]})" for name in missing)
        raise SourceError(
            f"the broker no longer has {listed}, which this job has read",
            "the topic was deleted.",
            _NEW_CHECKPOINT_HINT,
        )
    recreated = [name for name, recorded_id in recorded.items() if current[name].id != recorded_id]
    if recreated:
        listed = "; ".join(
            f"{name} had the id {recorded[name]} when it was read, and has {current[name].id} now"
            for name in recreated
        )
        raise SourceError(
            f"a topic was deleted and created again: {listed}",
            "its offsets start at 0 again; a stream from the offsets of the checkpoint would skip "
            "records.",
            _NEW_CHECKPOINT_HINT,
        )
