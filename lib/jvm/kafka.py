"""Kafka's own client: what a broker says of its topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from .session import java_class

_KAFKA_MS = 10_000
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


@dataclass(frozen=True)
class TopicState:
    """What a broker says of a topic: the id that it got when it was made, and its partitions."""

    id: str
    partitions: int


@dataclass(frozen=True)
class Kept:
    """How long a broker keeps a topic's records; None where there is no such limit.

    milliseconds: after which it may delete a record. bytes: the most that it keeps a partition.
    """

    milliseconds: int | None
    bytes: int | None


class KafkaClient:
    """Asks a broker of its topics, by Kafka's own client and the `kafka.*` options of a source.

    A context manager, and usable by several threads. Each question raises OSError where the broker
    gives no answer within ten seconds.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._servers = servers
        settings = java_class(spark, "java.util.Properties")()
        for name, value in {**options, "kafka.bootstrap.servers": servers}.items():
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], value)
        self._describing: Any = None
        self._lists: dict[tuple[str, ...], Any] = {}
        with self._answered("has no client"):
            self._client = self._admin("Admin").create(settings)

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _admin(self, name: str) -> Any:
        return java_class(self._spark, f"org.apache.kafka.clients.admin.{name}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close(java_class(self._spark, "java.time.Duration").ZERO)

    def names(self, pattern: str = ".*") -> list[str]:
        """Return the topics that a Java regular expression names, the internal ones left out."""
        options = self._admin("ListTopicsOptions")().timeoutMs(_KAFKA_MS)
        with self._answered("does not tell its topics"):
            found = self._client.listTopics(options).names().get()
            matches = java_class(self._spark, "java.util.regex.Pattern").matches
            return sorted(name for name in found if matches(pattern, name))

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """Return the state of each of the topics that are there."""
        return self.asked(topics)()

    def asked(self, topics: Sequence[str]) -> Callable[[], dict[str, TopicState]]:
        """Ask for the state of topics, and return what waits for the answer, as `states` does."""
        if self._describing is None:
            self._describing = self._admin("DescribeTopicsOptions")().timeoutMs(_KAFKA_MS)
        key = tuple(topics)
        if key not in self._lists:
            # Each call into the JVM takes a part of a millisecond, on a busy machine two.
            self._lists[key] = java_class(self._spark, "java.util.ArrayList")()
            for topic in topics:
                self._lists[key].add(topic)
        with self._answered(f"does not tell of {', '.join(topics)}"):
            found = self._client.describeTopics(self._lists[key], self._describing)
            futures = found.topicNameValues()
        return partial(self._states, key, futures)

    def _states(self, topics: Sequence[str], futures: Any) -> dict[str, TopicState]:
        states: dict[str, TopicState] = {}
        with self._answered(f"does not tell of {', '.join(topics)}"):
            for topic in topics:
                told = _unless_unknown(futures.get(topic))
                if told is not None:
                    size = int(told.partitions().size())
                    states[topic] = TopicState(str(told.topicId().toString()), size)
        return states

    def earliest(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Return the first offset that each partition still has, by topic and number."""
        return self._offsets(partitions, lambda *_: self._admin("OffsetSpec").earliest())

    def latest(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Return where each partition ends, without transactions that are open."""
        return self._offsets(partitions, lambda *_: self._admin("OffsetSpec").latest())

    def since(
        self, partitions: Mapping[str, Iterable[int]], milliseconds: int
    ) -> dict[str, dict[int, int]]:
        """Return the first offset of each partition at an instant or after it, in ms since 1970.

        A partition without such a record is left out.
        """
        return self.since_each(
            {topic: dict.fromkeys(parts, milliseconds) for topic, parts in partitions.items()}
        )

    def since_each(self, instants: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
        """Return what `since` does, with an instant of its own for each partition."""
        at_time = self._admin("OffsetSpec").forTimestamp
        found = self._offsets(instants, lambda topic, part: at_time(instants[topic][part]))
        return {
            topic: {part: at for part, at in parts.items() if at >= 0}
            for topic, parts in found.items()
        }

    def kept(self, topics: Sequence[str]) -> dict[str, Kept]:
        """Return how long each topic's records are kept."""
        kinds = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource")
        kind = kinds.Type.TOPIC
        asked = {topic: kinds(kind, topic) for topic in topics}
        wanted = java_class(self._spark, "java.util.ArrayList")()
        for each in asked.values():
            wanted.add(each)
        options = self._admin("DescribeConfigsOptions")().timeoutMs(_KAFKA_MS)
        with self._answered(f"does not tell how {', '.join(topics)} is kept"):
            found = self._client.describeConfigs(wanted, options).all().get()
            return {topic: _kept(found.get(each)) for topic, each in asked.items()}

    def _offsets(
        self, partitions: Mapping[str, Iterable[int]], spec: Callable[[str, int], Any]
    ) -> dict[str, dict[int, int]]:
        isolation = java_class(self._spark, "org.apache.kafka.common.IsolationLevel")
        options = self._admin("ListOffsetsOptions")(isolation.READ_COMMITTED).timeoutMs(_KAFKA_MS)
        made = java_class(self._spark, "org.apache.kafka.common.TopicPartition")
        wanted = java_class(self._spark, "java.util.HashMap")()
        places = [(topic, part) for topic, parts in partitions.items() for part in parts]
        asked = {place: made(*place) for place in places}
        for place, made_of in asked.items():
            wanted.put(made_of, spec(*place))
        offsets: dict[str, dict[int, int]] = {}
        with self._answered("does not tell the offsets"):
            found = self._client.listOffsets(wanted, options).all().get()
            for (topic, part), place in asked.items():
                offsets.setdefault(topic, {})[part] = int(found.get(place).offset())
        return offsets

    @contextmanager
    def _answered(self, what: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            told = error.java_exception
            cause = told.getCause() or told
            raise OSError(f"{self._servers} {what}: {cause.toString()}") from error


def _kept(config: Any) -> Kept:
    """Return the limits out of a topic's settings, which count where its records are deleted."""
    if "delete" not in str(config.get("cleanup.policy").value()):
        return Kept(None, None)
    limits = (int(config.get(name).value()) for name in ("retention.ms", "retention.bytes"))
    return Kept(*(None if limit < 0 else limit for limit in limits))


def _unless_unknown(future: Any) -> Any:
    """Return what a future of Kafka's client holds; None where it says that there is no topic."""
    try:
        return future.get()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is not None and cause.getClass().getName() == _UNKNOWN:
            return None
        raise
