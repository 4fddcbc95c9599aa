"""Raw rows with the columns of a Kafka source, and a producer of records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tidegate.sources.kafka_source import RAW_SCHEMA

RECEIVED = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def raw(
    spark: SparkSession, values: Sequence[bytes | None], received: datetime = RECEIVED
) -> DataFrame:
    rows = [
        ("clicks", 0, offset, received, None, None if value is None else bytearray(value), None)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RAW_SCHEMA)


def produce(
    servers: str,
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    key: bytes | None = None,
    at: datetime = RECEIVED,
    headers: list[tuple[str, str | bytes | None]] | None = None,
) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "message.max.bytes": 20_000_000}
    )
    for value in values:
        producer.produce(
            topic,
            value,
            key,
            partition,
            timestamp=int(at.timestamp() * 1000),
            headers=headers or [],
        )
    assert producer.flush(30) == 0
