"""The topics of a broker, and who may read them: what an administrator does."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from .process import until


class Topics(ABC):
    """What can be done to the topics of a broker that answers at `servers`."""

    @property
    @abstractmethod
    def servers(self) -> str:
        """The address, as `kafka.bootstrap.servers` takes it."""

    def create_topic(self, name: str, partitions: int = 1, **config: str | int | bool) -> str:
        """Create a topic, and return its name.

        `config` is Kafka's options for the topic, with `_` in place of dots:
        `cleanup_policy="compact"`.

        Raises:
            KafkaException: Kafka's own, for a topic that is there already, for instance.
        """
        settings = {key.replace("_", "."): _text(value) for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self._admin.create_topics([topic], operation_timeout=30)[name].result(30)
        self._wait_until_told(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        self._admin.delete_topics([name], operation_timeout=30)[name].result(30)
        self._wait_until_told(name, 0)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, up to so many in all."""
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        self._wait_until_told(name, total)

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the records of partitions before an offset each, as retention does."""
        wanted = [TopicPartition(name, part, offset) for part, offset in before.items()]
        for done in self._admin.delete_records(wanted).values():
            done.result(30)

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without the broker's own topics."""
        return {name: count for name, count in self._told().items() if not name.startswith("__")}

    def _told(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def _wait_until_told(self, name: str, partitions: int) -> None:
        """Wait until whoever asks the broker of a topic hears of so many partitions.

        The controller's answer comes first: for some milliseconds, on a busy machine a second, the
        broker still tells of its topics as they were.
        """
        until(
            lambda: self._told().get(name, 0) == partitions,
            within=30,
            what=f"the broker's telling of {partitions} partitions of {name}",
        )

    def _let_in(self, users: Mapping[str, str]) -> None:
        """Tell the broker who its users are, by names and passwords."""
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, kind, password.encode())
            for name, password in users.items()
        ]
        if wanted:
            for done in self._admin.alter_user_scram_credentials(wanted).values():
                done.result(30)

    def _knows_brokers(self) -> bool:
        """Return whether there is an answer to a question."""
        with contextlib.suppress(KafkaException):
            return bool(self._admin.list_topics(timeout=2).brokers)
        return False

    @cached_property
    def _admin(self) -> AdminClient:
        # Without log_level=0 the client writes each refused connection to standard error while the
        # broker comes up.
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0}
        return AdminClient(settings, logger=logging.getLogger(__name__))


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
