"""What a producer was told: every acknowledged record, and what a window job must make of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ..errors import SourceError
from .clicks import Click


@dataclass(frozen=True, slots=True)
class Sent:
    """One acknowledged record: where the broker put it, its bytes and the click that it carries."""

    partition: int
    offset: int
    value: bytes
    click: Click


@dataclass(frozen=True, slots=True)
class Views:
    """What the job counts for one page in one window."""

    views: int
    total_ms: float
    slowest_ms: float
    size: int


def produce(servers: str, topic: str, clicks: Sequence[Click], *, partitions: int = 4) -> list[Sent]:
    """Send the clicks in their order, spread evenly over the partitions, and give the ledger in the same order.

    The producer is idempotent and waits for all replicas; the record's timestamp is the click's arrival, which
    may be long ago: create the topic with `retention_ms=-1`, or the broker deletes it. A record that the broker did not
    acknowledge raises a SourceError.
    """
    producer = Producer(
        {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 20}
        # Without a log level the client writes to standard error that a young broker is not ready yet.
        | {"queue.buffering.max.messages": 1_000_000, "message.timeout.ms": 60_000, "log_level": 3}
    )
    ledger: list[Sent | None] = [None] * len(clicks)
    failures: list[KafkaError] = []

    def send(index: int, click: Click) -> None:
        value = click.value()

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                ledger[index] = Sent(message.partition() or 0, message.offset() or 0, value, click)

        producer.produce(
            topic,
            key=click.user.encode(),
            value=value,
            partition=index % partitions,
            timestamp=click.arrived,
            on_delivery=acknowledged,
        )

    try:
        for index, click in enumerate(clicks):
            send(index, click)
            if index % 5_000 == 0:
                producer.poll(0)
        producer.flush(60)
    except KafkaException as error:
        failures.append(error.args[0])
    sent = [entry for entry in ledger if entry is not None]
    if failures or len(sent) != len(clicks):
        reason = failures[0].str() if failures else "no answer within 60 seconds"
        raise SourceError(f"{len(clicks) - len(sent)} of {len(clicks)} records were not acknowledged: {reason}.")
    return sent


def expected(ledger: Iterable[Sent], size_ms: int, *, late: bool = False) -> dict[tuple[int, str], Views]:
    """Give the page views of tumbling windows, by (window start in ms since 1970, page), in plain Python.

    Broken records are left out, and stragglers too unless `late` is set.
    """
    groups: dict[tuple[int, str], list[Click]] = {}
    for sent in ledger:
        click = sent.click
        if click.fault is None and (late or not click.straggler):
            groups.setdefault((click.at // size_ms * size_ms, click.page), []).append(click)
    return {
        key: Views(
            len(group),
            sum(click.ms for click in group),
            max(click.ms for click in group),
            sum(click.size for click in group),
        )
        for key, group in groups.items()
    }
