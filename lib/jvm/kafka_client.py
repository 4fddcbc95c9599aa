"""Topics, offsets and retention of a broker, by Kafka's Java client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from .spark_internals import java_class

_KAFKA_MS = 10_000
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


@dataclass(frozen=True)
class TopicState:
    """The id of a topic, which is assigned at its creation, and its number of partitions."""

    id: str
    partitions: int


@dataclass(frozen=True)
class Retention:
    """The limits of what a broker retains: age, and bytes per partition; None without a limit."""

    milliseconds: int | None
    bytes: int | None


class KafkaClient:
    """Kafka's Java client, with the `kafka.*` options of a source.

    A context manager, and usable by several threads. Each request raises OSError if the broker does
    not answer within ten seconds.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._servers = servers
        settings = java_class(spark, "java.util.Properties")()
        for name, value in {**options, "kafka.bootstrap.servers": servers}.items():
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], value)
        self._describe_options: Any = None
        self._topic_lists: dict[tuple[str, ...], Any] = {}
        with self._raising_os_errors("has no client"):
            self._client = self._admin("Admin").create(settings)

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _admin(self, name: str) -> Any:
        return java_class(self._spark, f"org.apache.kafka.clients.admin.{name}")

    def _java_list(self, values: Iterable[Any]) -> Any:
        java_list = java_class(self._spark, "java.util.ArrayList")()
        for value in values:
            java_list.add(value)
        return java_list

    def close(self) -> None:
        """Close the connections."""
        self._client.close(java_class(self._spark, "java.time.Duration").ZERO)

    def list_topics(self, pattern: str = ".*") -> list[str]:
        """Return the topics that match a Java regular expression, without internal topics."""
        options = self._admin("ListTopicsOptions")().timeoutMs(_KAFKA_MS)
        with self._raising_os_errors("did not return its topics"):
            topics = self._client.listTopics(options).names().get()
            matches = java_class(self._spark, "java.util.regex.Pattern").matches
            return sorted(name for name in topics if matches(pattern, name))

    def topic_states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """Return the state of each existing topic."""
        return self.request_topic_states(topics)()

    def request_topic_states(self, topics: Sequence[str]) -> Callable[[], dict[str, TopicState]]:
        """Request the state of topics, and return a function that waits for the answer."""
        if self._describe_options is None:
            self._describe_options = self._admin("DescribeTopicsOptions")().timeoutMs(_KAFKA_MS)
        key = tuple(topics)
        if key not in self._topic_lists:
            # The list is cached, because each call into the JVM takes up to two milliseconds.
            self._topic_lists[key] = self._java_list(topics)
        with self._raising_os_errors(f"did not describe {', '.join(topics)}"):
            result = self._client.describeTopics(self._topic_lists[key], self._describe_options)
            futures = result.topicNameValues()
        return partial(self._await_topic_states, key, futures)

    def _await_topic_states(self, topics: Sequence[str], futures: Any) -> dict[str, TopicState]:
        states: dict[str, TopicState] = {}
        with self._raising_os_errors(f"did not describe {', '.join(topics)}"):
            for topic in topics:
                description = _result_or_none(futures.get(topic))
                if description is not None:
                    size = int(description.partitions().size())
                    states[topic] = TopicState(str(description.topicId().toString()), size)
        return states

    def earliest_offsets(
        self, partitions: Mapping[str, Iterable[int]]
    ) -> dict[str, dict[int, int]]:
        """Return the earliest offset of each partition, by topic and number."""
        return self._list_offsets(partitions, lambda *_: self._admin("OffsetSpec").earliest())

    def latest_offsets(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Return the end offset of each partition, without open transactions."""
        return self._list_offsets(partitions, lambda *_: self._admin("OffsetSpec").latest())

    def offsets_since_each(
        self, instants: Mapping[str, Mapping[int, int]]
    ) -> dict[str, dict[int, int]]:
        """Return the first offset of each partition at its instant or later, in ms since 1970.

        A partition without such a record is left out.
        """
        at_time = self._admin("OffsetSpec").forTimestamp
        offsets = self._list_offsets(instants, lambda topic, part: at_time(instants[topic][part]))
        return {
            topic: {part: offset for part, offset in parts.items() if offset >= 0}
            for topic, parts in offsets.items()
        }

    def retention(self, topics: Sequence[str]) -> dict[str, Retention]:
        """Return the retention of each topic."""
        resource_class = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource")
        topic_type = resource_class.Type.TOPIC
        resources = {topic: resource_class(topic_type, topic) for topic in topics}
        requested = self._java_list(resources.values())
        options = self._admin("DescribeConfigsOptions")().timeoutMs(_KAFKA_MS)
        with self._raising_os_errors(f"did not return the retention of {', '.join(topics)}"):
            configs = self._client.describeConfigs(requested, options).all().get()
            return {topic: _parse_retention(configs.get(each)) for topic, each in resources.items()}

    def _list_offsets(
        self, partitions: Mapping[str, Iterable[int]], spec: Callable[[str, int], Any]
    ) -> dict[str, dict[int, int]]:
        isolation = java_class(self._spark, "org.apache.kafka.common.IsolationLevel")
        options = self._admin("ListOffsetsOptions")(isolation.READ_COMMITTED).timeoutMs(_KAFKA_MS)
        partition_class = java_class(self._spark, "org.apache.kafka.common.TopicPartition")
        requested = java_class(self._spark, "java.util.HashMap")()
        partition_keys = [(topic, part) for topic, parts in partitions.items() for part in parts]
        topic_partitions = {partition: partition_class(*partition) for partition in partition_keys}
        for partition, topic_partition in topic_partitions.items():
            requested.put(topic_partition, spec(*partition))
        offsets: dict[str, dict[int, int]] = {}
        with self._raising_os_errors("did not return the offsets"):
            results = self._client.listOffsets(requested, options).all().get()
            for (topic, part), partition in topic_partitions.items():
                offsets.setdefault(topic, {})[part] = int(results.get(partition).offset())
        return offsets

    @contextmanager
    def _raising_os_errors(self, problem: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            exception = error.java_exception
            cause = exception.getCause() or exception
            raise OSError(f"{self._servers} {problem}: {cause.toString()}") from error


def _parse_retention(config: Any) -> Retention:
    """Return the retention from the settings of a topic with deletion of records."""
    if "delete" not in str(config.get("cleanup.policy").value()):
        return Retention(None, None)
    limits = (int(config.get(name).value()) for name in ("retention.ms", "retention.bytes"))
    return Retention(*(None if limit < 0 else limit for limit in limits))


def _result_or_none(future: Any) -> Any:
    """Return the result of a future of Kafka's client; None for an unknown topic."""
    try:
        return future.get()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is not None and cause.getClass().getName() == _UNKNOWN:
            return None
        raise
