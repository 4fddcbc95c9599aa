"""Records sent to a broker, each of them acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import SourceError

OF_THE_PRODUCER = -1
"""The partition that the producer chooses, by the key."""

_POLL_EVERY = 5_000


@dataclass(frozen=True, slots=True)
class Record:
    """What a topic takes; `timestamp` is in ms since 1970."""

    topic: str
    value: bytes | None
    timestamp: int
    key: bytes | None = None
    partition: int = OF_THE_PRODUCER


def deliver(servers: str, records: Iterable[Record]) -> list[tuple[int, int]]:
    """Send records in their order, and give the partition and offset of each.

    The producer is idempotent and waits for all replicas. A timestamp may be long ago: create the
    topic with `retention_ms=-1`, or the broker deletes the record. One that was not acknowledged
    raises a SourceError."""
    settings = {
        "bootstrap.servers": servers,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 20,
    }
    settings |= {"queue.buffering.max.messages": 1_000_000, "message.timeout.ms": 60_000}
    # Without a log level the client writes to standard error that a young broker is not ready yet.
    producer = Producer(settings | {"log_level": 3})
    places: dict[int, tuple[int, int]] = {}
    failures: list[KafkaError] = []

    def acknowledged(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            places[number] = message.partition() or 0, message.offset() or 0

    sent = 0
    try:
        for sent, record in enumerate(records, start=1):
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                timestamp=record.timestamp,
                on_delivery=partial(acknowledged, sent - 1),
            )
            if sent % _POLL_EVERY == 0:
                producer.poll(0)
        producer.flush(60)
    except KafkaException as error:
        failures.append(error.args[0])
    if failures or len(places) < sent:
        reason = failures[0].str() if failures else "no answer within 60 seconds"
        raise SourceError(
            f"{sent - len(places)} of {sent} records were not acknowledged: {reason}."
        )
    return [places[number] for number in range(sent)]
