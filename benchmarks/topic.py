"""The measured topic: seeded JSON clicks of about 120 bytes, a little out of order."""

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


def fill(
    servers: str,
    topic: str,
    rows: int,
    partitions: int,
    seed: int = 11,
    *,
    stragglers: float = 0.0,
    hot: float = 0.0,
    unreadable: float = 0.0,
    rate: int = EVENTS_A_SECOND,
    keys: int = 1,
    first: int = 0,
) -> int:
    """Send the clicks, spread evenly over the partitions, and give their mean size in bytes.

    rate: how many happened in a second. keys: how many times the PAGES and the USERS there are.
    first: how many clicks, of other topics, happened before them.

    A share of them, the `stragglers`, come LATE_MS after the others of their time; a share, the
    `hot`, are of one page and one user; and a share, the `unreadable`, are cut off.
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
            _values(random, first + start, count, stragglers, hot, rate, keys)
        ):
            if cut[n]:
                value = value[:-1]
            while True:
                try:
                    producer.produce(topic, value, partition=n % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += len(value)
        producer.poll(0)
    producer.flush()
    return sent // rows


def _values(
    random: np.random.Generator,
    start: int,
    rows: int,
    stragglers: float,
    hot: float,
    rate: int,
    keys: int = 1,
) -> list[bytes]:
    happened = (
        START_MS + (start + np.arange(rows)) * 1_000 // rate - random.integers(0, DISORDER_MS, rows)
    )
    if stragglers:
        happened -= np.where(random.random(rows) < stragglers, random.integers(*LATE_MS, rows), 0)
    pages, users = random.integers(0, keys * PAGES, rows), random.integers(0, keys * USERS, rows)
    if hot:
        of_one = random.random(rows) < hot
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
