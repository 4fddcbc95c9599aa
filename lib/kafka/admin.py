"""Topics, partitions and offsets of a Kafka cluster, by Kafka's own client."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from ..errors import ArgumentError, SourceError
from .client_options import describe_similar_topics, require_bootstrap_servers

_TIMEOUT_S = 15.0
_LEADERS_TIMEOUT_S = 15.0


class Cluster:
    """An admin client of a Kafka cluster.

    options: settings of Kafka's client as name=value, such as "security.protocol=SSL".

    Raises ArgumentError at construction, and SourceError if no broker answers.
    """

    def __init__(self, servers: str, options: Sequence[str] = ()) -> None:
        require_bootstrap_servers(servers)
        self.servers = servers
        self.options = dict(map(parse_client_option, options))
        # With another log_level the client writes each refused connection to standard error.
        settings: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0, **self.options}
        try:
            self._admin = AdminClient(settings, logger=logging.getLogger(__name__))
        except KafkaException as error:
            raise ArgumentError(f"invalid client option: {error.args[0].str()}") from None

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without Kafka's internal topics."""
        try:
            topics = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            raise SourceError(
                f"no broker answers at {self.servers}",
                f"{error.args[0].str()}.",
                "pass the address of a running broker, such as --servers host:port; "
                "`make broker PORT=9092` starts one from a checkout.",
            ) from None
        user_topics = {name: topic for name, topic in topics.items() if not name.startswith("__")}
        return {name: len(topic.partitions) for name, topic in sorted(user_topics.items())}

    def create_topic(self, name: str, partitions: int) -> str:
        """Create a topic unless it exists; return a line with the outcome and its partitions."""
        existing_partitions = self.topics().get(name)
        if existing_partitions is not None:
            return f"{name} exists; partitions: {existing_partitions}."
        topic = NewTopic(name, num_partitions=partitions)
        try:
            self._admin.create_topics([topic], operation_timeout=30)[name].result(30)
        except KafkaException as error:
            raise SourceError(f"topic {name} not created", f"{error.args[0].str()}.") from None
        self._wait_for_leaders(name, partitions)
        return f"{name} created; partitions: {partitions}."

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + _LEADERS_TIMEOUT_S
        while not self._has_leaders(name, partitions):
            if time.monotonic() > deadline:
                raise SourceError(
                    f"topic {name} is created, but not ready",
                    f"some partitions have no leader after {_LEADERS_TIMEOUT_S:g} s.",
                    "check the brokers, then run the command again.",
                )
            time.sleep(0.1)

    def _has_leaders(self, name: str, partitions: int) -> bool:
        try:
            return name in self.topics() and bool(self.end_offsets({name: range(partitions)}))
        except SourceError:
            return False

    def topic_id(self, name: str) -> str:
        """Return the id of a topic, which is unique across clusters and recreations."""
        query = TopicCollection([name])
        try:
            future = self._admin.describe_topics(query, request_timeout=_TIMEOUT_S)[name]
            return str(future.result(_TIMEOUT_S).topic_id)
        except KafkaException as error:
            raise SourceError(
                f"id of topic {name} not available at {self.servers}", f"{error.args[0].str()}."
            ) from None

    def require_topic(self, name: str) -> None:
        """Raise SourceError if the topic does not exist."""
        topics = self.topics()
        if name not in topics:
            raise SourceError(
                f"topic {name} does not exist at {self.servers}",
                describe_similar_topics(name, topics),
                "create it, for example with `tidegate topics --create NAME:PARTITIONS`.",
            )

    def end_offsets(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], int]:
        """Return the offset after the latest record of each partition."""
        return self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def start_offsets(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], int]:
        """Return the offset of the earliest record of each partition."""
        return self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _list_offsets(
        self, partitions: Mapping[str, Iterable[int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        requests = {
            TopicPartition(topic, number): spec
            for topic, numbers in partitions.items()
            for number in numbers
        }
        if not requests:
            return {}
        try:
            answers = self._admin.list_offsets(requests, request_timeout=_TIMEOUT_S)
            return {
                (partition.topic, partition.partition): answer.result(_TIMEOUT_S).offset
                for partition, answer in answers.items()
            }
        except KafkaException as error:
            raise SourceError(
                f"offsets not available at {self.servers}", f"{error.args[0].str()}."
            ) from None


def parse_client_option(text: str) -> tuple[str, str]:
    """Return the name and the value of a client option; raise ArgumentError for any other text.

    >>> parse_client_option("security.protocol=SSL")
    ('security.protocol', 'SSL')
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ArgumentError(
            f"invalid client option: {text!r}", "name=value", "--option security.protocol=SSL"
        )
    # Spark's names of these options have the prefix "kafka.".
    return name.strip().removeprefix("kafka."), value.strip()
