"""Topics of seeded JSON clicks of about 120 bytes, slightly out of order."""

from __future__ import annotations

import numpy as np
from confluent_kafka import Producer

PAGES, USERS = 1_000, 100_000
EVENTS_A_SECOND = 10_000
DISORDER_MS = 2_000
LATE_MS = (20_000, 320_000)
START_MS = 1_767_225_600_000
SCHEMA = "ts BIGINT, page STRING, user STRING, ms INT, bytes INT"
_CHUNK = 100_000


def produce_when_possible(
    producer: Producer,
    topic: str,
    value: bytes | None,
    partition: int,
    key: bytes | None = None,
) -> None:
    """Add a record to the queue of a producer, and wait while it is full."""
    while True:
        try:
            producer.produce(topic, value, key, partition)
            return
        except BufferError:
            producer.poll(0.1)


def fill(
    servers: str,
    topic: str,
    rows: int,
    partitions: int,
    seed: int = 11,
    *,
    late_share: float = 0.0,
    hot_share: float = 0.0,
    unreadable: float = 0.0,
    rate: int = EVENTS_A_SECOND,
    keys: int = 1,
    first: int = 0,
) -> int:
    """Send clicks, spread evenly over the partitions, and return their mean size in bytes.

    late_share: the share of clicks that arrive late, by an amount within LATE_MS.
    hot_share: the share of clicks of one page and one user.
    unreadable: the share of truncated records.
    rate: clicks a second of event time.
    keys: the multiple of PAGES and USERS.
    first: the number of clicks before the first one; it shifts the event times.
    """
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1_000_000,
        }
    )
    random, sent = np.random.default_rng(seed), 0
    for start in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - start)
        cut = random.random(count) < unreadable if unreadable else np.zeros(count, bool)
        for n, value in enumerate(
            _values(random, first + start, count, late_share, hot_share, rate, keys)
        ):
            if cut[n]:
                value = value[:-1]
            produce_when_possible(producer, topic, value, n % partitions)
            sent += len(value)
        producer.poll(0)
    producer.flush()
    return sent // rows


def _values(
    random: np.random.Generator,
    start: int,
    rows: int,
    late_share: float,
    hot_share: float,
    rate: int,
    keys: int = 1,
) -> list[bytes]:
    happened = (
        START_MS + (start + np.arange(rows)) * 1_000 // rate - random.integers(0, DISORDER_MS, rows)
    )
    if late_share:
        happened -= np.where(random.random(rows) < late_share, random.integers(*LATE_MS, rows), 0)
    pages, users = random.integers(0, keys * PAGES, rows), random.integers(0, keys * USERS, rows)
    if hot_share:
        of_one = random.random(rows) < hot_share
        pages, users = np.where(of_one, 0, pages), np.where(of_one, 0, users)
    columns = (
        happened.tolist(),
        pages.tolist(),
        users.tolist(),
        random.lognormal(4, 1, rows).astype(int).tolist(),
        random.integers(200, 90_000, rows).tolist(),
    )
    return [
        b'{"ts":%d,"page":"/products/category-%04d/index.html","user":"user-%08d","ms":%d,"bytes":%d}'
        % row
        for row in zip(*columns, strict=True)
    ]
