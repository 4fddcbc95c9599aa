"""Synchronous delivery of records to a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import SourceError

CHOSEN_BY_KEY = -1
"""The partition number that lets the producer choose a partition by key."""

_POLL_INTERVAL_RECORDS = 5_000
_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "message.timeout.ms": 60_000,
    # Only the broker limits the size of a message.
    "message.max.bytes": 100_000_000,
    # With a higher level the client writes each failed connection attempt to standard error.
    "log_level": 2,
}


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record; `timestamp` is in milliseconds since 1970.

    >>> Record("clicks", b'{"page": "/a"}', 1_767_225_600_000, key=b"/a").key
    b'/a'
    """

    topic: str
    value: bytes | None
    timestamp: int
    key: bytes | None = None
    partition: int = CHOSEN_BY_KEY


def deliver(
    bootstrap_servers: str, records: Iterable[Record], *, options: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    """Send records in order, and return the partition and offset of each.

    The producer is idempotent and waits for all replicas. If timestamps are older than the
    retention of the topic, the broker deletes the records; create the topic with `retention_ms=-1`.

    Args:
        bootstrap_servers: addresses of the brokers, as host:port separated by commas.
        records: the records to send.
        options: settings of Kafka's client, such as `security.protocol`.

    Raises:
        SourceError: if the broker does not acknowledge a record.

    >>> deliver("localhost:9092", [Record("clicks", b"{}", timestamp=0)])  # doctest: +SKIP
    [(0, 0)]
    """
    producer = Producer({"bootstrap.servers": bootstrap_servers, **_SETTINGS, **(options or {})})
    positions: dict[int, tuple[int, int]] = {}
    failures: list[KafkaError] = []

    def on_delivery(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            positions[number] = (message.partition() or 0, message.offset() or 0)

    sent_count = 0
    try:
        for record in records:
            sent_count += 1
            while True:
                try:
                    producer.produce(
                        record.topic,
                        record.value,
                        record.key,
                        record.partition,
                        timestamp=record.timestamp,
                        on_delivery=partial(on_delivery, sent_count),
                    )
                    break
                except BufferError:
                    # Records that the broker does not acknowledge in time leave the queue, too.
                    producer.poll(1)
            if sent_count % _POLL_INTERVAL_RECORDS == 0:
                producer.poll(0)
        producer.flush(60)
    except KafkaException as error:
        failures.append(error.args[0])
    missing = sent_count - len(positions)
    if failures or missing:
        cause = failures[0].str() if failures else "no response within 60 seconds"
        raise SourceError(f"{missing} of {sent_count} records not acknowledged", f"{cause}.")
    return [positions[number] for number in range(1, sent_count + 1)]
