"""Topics of a join: seeded JSON impressions, and for each a click within a minute.

Both are slightly out of order. The last record of each topic is an hour later, so that the
watermark emits all results and all contestants do the same work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from confluent_kafka import Producer

from benchmarks.support.click_topic import (
    DISORDER_MS,
    PAGES,
    START_MS,
    USERS,
    produce_when_possible,
)

IMPRESSIONS_A_SECOND = 5_000
WITHIN_MS = 60_000
IMPRESSION = "ts BIGINT, id STRING, page STRING, user STRING"
CLICK = "ts BIGINT, id STRING, position INT, ms INT"
_END = (
    b'{"ts":%d,"id":"last-impression","page":"/","user":"last"}',
    b'{"ts":%d,"id":"last-click","position":0,"ms":0}',
)


def fill(servers: str, topics: tuple[str, str], rows: int, partitions: int, seed: int = 11) -> int:
    """Send `rows` impressions and clicks, spread evenly, and return their mean size in bytes."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1_000_000,
        }
    )
    sent = 0
    for topic, values in zip(topics, _values(rows, seed), strict=True):
        for number, value in enumerate(values):
            produce_when_possible(producer, topic, value, number % partitions)
            sent += len(value)
        producer.flush()
    return sent // (2 * rows)


def _values(rows: int, seed: int) -> Iterator[list[bytes]]:
    random = np.random.default_rng(seed)
    arrived = START_MS + np.arange(rows) * 1_000 // IMPRESSIONS_A_SECOND
    seen = arrived - random.integers(0, DISORDER_MS, rows)
    page, user = random.integers(0, PAGES, rows).tolist(), random.integers(0, USERS, rows).tolist()
    impressions = zip(seen.tolist(), range(rows), page, user, strict=True)
    end = int(START_MS + rows * 1_000 // IMPRESSIONS_A_SECOND + 3_600_000)
    made = [
        b'{"ts":%d,"id":"impression-%010d","page":"/products/%04d","user":"user-%08d"}' % row
        for row in impressions
    ]
    yield [*made, _END[0] % end]
    clicked = seen + random.integers(0, WITHIN_MS + 1, rows)
    order = np.argsort(clicked + random.integers(0, DISORDER_MS, rows), kind="stable")
    ms = random.lognormal(4, 1, rows).astype(int)
    clicks = zip(
        clicked[order].tolist(), order.tolist(), (order % 10).tolist(), ms.tolist(), strict=True
    )
    yield [
        *[b'{"ts":%d,"id":"impression-%010d","position":%d,"ms":%d}' % row for row in clicks],
        _END[1] % end,
    ]
