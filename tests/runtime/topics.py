"""Topics of a few records, each of a second after the start, and how jobs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from tidegate.formats import json_format
from tidegate.sources import KafkaSource, Reading

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def reading(
    servers: str, topic: str, *, lateness: str = "0 seconds", max_rows: int | None = None
) -> Reading:
    """Return the reading of a topic's pages and times, so many rows a batch."""
    return Reading(
        source=KafkaSource(servers=servers, topics=[topic], max_rows=max_rows),
        format=json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        lateness=lateness,
        future_tolerance=None,
    )


def sent(servers: str, topic: str, values: Iterable[float | str], partition: int = 0) -> None:
    """Send a record for each second after the start, in this order; a text goes as it is."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        record = value if isinstance(value, str) else page(f"p{partition}", value)
        producer.produce(topic, record.encode(), partition=partition)
    producer.flush()


def page(page: str, second: float) -> str:
    """Return the record of a page that was seen so many seconds after the start."""
    return json.dumps({"page": page, "event_time": str(START + timedelta(seconds=second))})
