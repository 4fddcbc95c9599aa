"""Topics as Debezium writes them for the tables of a database, with schema parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

INT = {"type": "int32"}
LONG = {"type": "int64"}
TEXT = {"type": "string"}
DOUBLE = {"type": "double"}
MONEY = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
DATE = {"type": "int32", "name": "io.debezium.time.Date"}
LOCAL_TIME = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
ZONED_TIME = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
INTEGERS = {"type": "array", "items": {"type": "int32"}}
MAP = {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}
SOURCE = {
    "type": "struct",
    "name": "io.debezium.connector.postgresql.Source",
    "fields": [
        {**LONG, "field": "lsn"},
        {**LONG, "field": "ts_ms"},
        {**TEXT, "optional": True, "field": "snapshot"},
    ],
}
FIRST_MILLIS = 1_772_445_600_000

Types = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class SourceRecords:
    """Makes the records of one table.

    types: the Connect types of its columns.
    """

    types: Types
    key: Sequence[str] = ("id",)

    def change(
        self, op: str, position: int, after: Mapping[str, Any] | None = None, **before: Any
    ) -> tuple[bytes | None, bytes]:
        """Return the key and the value of a change."""
        row = after or before
        payload = {
            "before": before or None,
            "after": after,
            "source": {"lsn": position, "ts_ms": FIRST_MILLIS + position, "snapshot": "false"},
            "op": op,
            "ts_ms": FIRST_MILLIS + position,
        }
        name = "server.public.t.Value"
        columns = {"type": "struct", "name": name, "optional": True, "fields": _fields(self.types)}
        envelope = {
            "type": "struct",
            "name": "server.public.t.Envelope",
            "fields": [
                {**columns, "field": "before"},
                {**columns, "field": "after"},
                {**SOURCE, "field": "source"},
                {**TEXT, "field": "op"},
                {**LONG, "optional": True, "field": "ts_ms"},
            ],
        }
        return self.key_of(row), schema_record(envelope, payload)

    def tombstone(self, **key: Any) -> tuple[bytes | None, None]:
        """Return the key and no value."""
        return self.key_of(key), None

    def key_of(self, row: Mapping[str, Any]) -> bytes | None:
        if not self.key:
            return None
        types = {name: self.types[name] for name in self.key}
        schema = {"type": "struct", "name": "server.public.t.Key", "fields": _fields(types)}
        return schema_record(schema, {name: row[name] for name in self.key})


def _fields(types: Types) -> list[dict[str, Any]]:
    return [{**data_type, "optional": True, "field": name} for name, data_type in types.items()]


def schema_record(schema: Any, payload: Any) -> bytes:
    """Return JSON as Kafka Connect's converter writes it."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def send_changes(
    servers: str, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]
) -> None:
    """Send records to the first partition of a topic, in their order."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key=key, partition=0)
    producer.flush()


def read_records(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return the keys and values of the first partition of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "replicated", "enable.auto.commit": False}
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        records: list[tuple[bytes | None, bytes | None]] = []
        while len(records) < end:
            record = consumer.poll(30)
            assert record is not None
            assert record.error() is None
            records.append((record.key(), record.value()))
        return records
    finally:
        consumer.close()
