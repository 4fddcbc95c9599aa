"""Topics of a few page views, with event times in seconds after a start, and inputs for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate.formats import json_format
from tidegate.sources import Input, KafkaSource

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def pages_input(
    servers: str,
    topic: str,
    *,
    watermark_delay: str = "0 seconds",
    max_records: int | None = None,
) -> Input:
    """Return an input of page views, with at most `max_records` records per batch."""
    return Input(
        source=KafkaSource(
            bootstrap_servers=servers, topics=[topic], max_records_per_batch=max_records
        ),
        format=json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay=watermark_delay,
        future_tolerance=None,
    )


def send_records(
    servers: str, topic: str, values: Iterable[float | str], partition: int = 0
) -> None:
    """Send a page view for each second after the start, in this order; strings are sent as is."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        record = value if isinstance(value, str) else page(f"p{partition}", value)
        producer.produce(topic, record.encode(), partition=partition)
    producer.flush()


def record_count(servers: str, topic: str) -> int:
    """Return the number of records in a topic without deleted records."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "record_count"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in partitions
        ]
    finally:
        consumer.close()
    return sum(ends)


def page(page: str, second: float) -> str:
    """Return the JSON record of a page view at a second after the start."""
    return json.dumps({"page": page, "event_time": str(START + timedelta(seconds=second))})
