"""Records sent to a broker, each of them acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import SourceError

OF_THE_PRODUCER = -1
"""The partition that the producer chooses, by the key."""

_POLL_EVERY = 5_000
_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "message.timeout.ms": 60_000,
    # Otherwise the client writes to standard error that a broker does not answer yet, again and
    # again.
    "log_level": 2,
}


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be sent; `timestamp` is in ms since 1970."""

    topic: str
    value: bytes | None
    timestamp: int
    key: bytes | None = None
    partition: int = OF_THE_PRODUCER


def deliver(
    servers: str, records: Iterable[Record], *, options: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    """Send records in their order, and return the partition and offset of each.

    The producer is idempotent and waits for all replicas. A timestamp may be long ago: create the
    topic with `retention_ms=-1`, or the broker deletes the record. `options` are those of Kafka's
    client, such as `security.protocol`.

    Raises:
        SourceError: for a record that the broker did not acknowledge.
    """
    delivery = _Delivery(servers, options or {})
    try:
        for record in records:
            delivery.send(record)
        delivery.wait()
    except KafkaException as error:
        delivery.failures.append(error.args[0])
    return delivery.acknowledged()


class _Delivery:
    """A producer, and what the broker has answered."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        self._producer = Producer({"bootstrap.servers": servers, **_SETTINGS, **options})
        self._sent = 0
        self._places: dict[int, tuple[int, int]] = {}
        self.failures: list[KafkaError] = []

    def send(self, record: Record) -> None:
        number = self._sent
        self._sent += 1
        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp,
            on_delivery=partial(self._answered, number),
        )
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll(0)

    def wait(self) -> None:
        self._producer.flush(60)

    def acknowledged(self) -> list[tuple[int, int]]:
        """Return where each record is, and refuse a delivery with gaps."""
        missing = self._sent - len(self._places)
        if self.failures or missing:
            reason = self.failures[0].str() if self.failures else "no answer within 60 seconds"
            raise SourceError(f"{missing} of {self._sent} records were not acknowledged: {reason}.")
        return [self._places[number] for number in range(self._sent)]

    def _answered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self._places[number] = (message.partition() or 0, message.offset() or 0)
