"""What the commands ask of a broker, by Kafka's own client and without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from ..errors import ArgumentError, SourceError
from ..runtime.config.load import PREFIX
from ..sources._kafka_options import require_servers
from ..sources.topics import topics_like

Servers = Annotated[
    str,
    typer.Option(
        envvar=f"{PREFIX}KAFKA__SERVERS",
        help="The brokers, as host:port, with commas between.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="name=value of Kafka's client, such as security.protocol=SSL; repeatable."
    ),
]
_SECONDS = 15.0
_LEADERS_SECONDS = 15.0


class Cluster:
    """The brokers of a cluster, asked for its topics.

    Raises ArgumentError at construction, and SourceError where no broker answers.
    """

    def __init__(self, servers: str, options: Sequence[str] = ()) -> None:
        require_servers(servers)
        self.servers = servers
        self.options = dict(map(client_option, options))
        # Without log_level=0 the client writes each refused connection to standard error.
        settings: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0, **self.options}
        try:
            self._admin = AdminClient(settings, logger=logging.getLogger(__name__))
        except KafkaException as error:
            raise ArgumentError(f"--option: {error.args[0].str()}.") from None

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own topics left out."""
        try:
            found = self._admin.list_topics(timeout=_SECONDS).topics
        except KafkaException as error:
            raise SourceError(
                f"no broker answers at {self.servers}: {error.args[0].str()}.",
                "a broker that runs.",
                "--servers host:port; `make broker PORT=9092` in a checkout starts one.",
            ) from None
        own = {name: topic for name, topic in found.items() if not name.startswith("__")}
        return {name: len(topic.partitions) for name, topic in sorted(own.items())}

    def create(self, name: str, partitions: int) -> str:
        """Create a topic unless it is there; return a line that says which, and its partitions."""
        already = self.topics().get(name)
        if already is not None:
            return f"{name} is there already; partitions: {already}."
        topic = NewTopic(name, num_partitions=partitions)
        try:
            self._admin.create_topics([topic], operation_timeout=30)[name].result(30)
        except KafkaException as error:
            raise SourceError(f"{name} cannot be created: {error.args[0].str()}.") from None
        self._wait_for_leaders(name, partitions)
        return f"{name} is made; partitions: {partitions}."

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        """Wait until each partition of a topic that was just created has a leader.

        For a moment they have none, and the topic may not be listed yet.
        """
        deadline = time.monotonic() + _LEADERS_SECONDS
        while not self._ready(name, partitions):
            if time.monotonic() > deadline:
                raise SourceError(
                    f"{name} was created, and after {_LEADERS_SECONDS:g} s not all of its "
                    "partitions have leaders.",
                    "brokers that take what is sent to the topic.",
                    "see to the brokers, and call this again: the topic is there by then.",
                )
            time.sleep(0.1)

    def _ready(self, name: str, partitions: int) -> bool:
        try:
            return name in self.topics() and bool(self.ends({name: range(partitions)}))
        except SourceError:
            return False

    def topic_id(self, name: str) -> str:
        """Return Kafka's own id of a topic, which no other topic of this or another cluster has."""
        asked = TopicCollection([name])
        try:
            found = self._admin.describe_topics(asked, request_timeout=_SECONDS)[name]
            return str(found.result(_SECONDS).topic_id)
        except KafkaException as error:
            raise SourceError(
                f"{self.servers} does not describe {name}: {error.args[0].str()}."
            ) from None

    def require(self, name: str) -> None:
        """Refuse a topic that is not there."""
        there = self.topics()
        if name not in there:
            raise SourceError(
                f"there is no topic {name} at {self.servers}.",
                topics_like(name, there),
                "--create 4 makes it, with 4 partitions.",
            )

    def ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], int]:
        """Return the offset after the newest record of each partition."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def begins(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], int]:
        """Return the offset of the oldest record of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(
        self, partitions: Mapping[str, Iterable[int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        asked = {
            TopicPartition(topic, number): spec
            for topic, numbers in partitions.items()
            for number in numbers
        }
        if not asked:
            return {}
        try:
            answers = self._admin.list_offsets(asked, request_timeout=_SECONDS)
            return {
                (place.topic, place.partition): answer.result(_SECONDS).offset
                for place, answer in answers.items()
            }
        except KafkaException as error:
            raise SourceError(f"{self.servers} tells no offsets: {error.args[0].str()}.") from None


def client_option(text: str) -> tuple[str, str]:
    """Return the name and the value of an option of Kafka's client; refuse what is none."""
    name, given, value = text.partition("=")
    if not given or not name.strip():
        raise ArgumentError(f"--option {text!r}.", "name=value.", "--option security.protocol=SSL")
    # Spark's options begin with "kafka."; those of the client do not.
    return name.strip().removeprefix("kafka."), value.strip()
