"""The topics that all contestants read, and what is in a topic.

Clicks, impressions with their clicks, and a profile of each user. A last click of each partition,
an hour later, lets all windows close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pandas as pd
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from deltalake import write_deltalake
from pyarrow import json

from tidegate.testing import Broker
from tidegate.testing.delivery import Record, deliver

from .. import impressions, topic
from ..harness import PARTITIONS

CLICKS = "clicks"
PAIR = (f"{CLICKS}-impressions", f"{CLICKS}-clicks")
PROFILES = "profiles"
TABLE_ROWS = 100_000
SPAN_SECONDS = 400
"""How long the clicks take in event time, however many they are."""

CLOSING = "closing"
"""The page and user of the last clicks."""

_AN_HOUR_MS = 3_600_000
_AT_ONCE = 100_000
_LAST = b'{"ts":%d,"page":"%s","user":"%s","ms":0,"bytes":0}'


def fill(broker: Broker, rows: int, tables: Path) -> None:
    """Make the topics, of so many clicks and half as many impressions, and the table of profiles.

    The table is a topic for the rivals and a Delta table for Spark."""
    for name in (CLICKS, *PAIR):
        broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
    topic.fill(broker.servers, CLICKS, rows, PARTITIONS, rate=max(1, rows // SPAN_SECONDS))
    end = topic.START_MS + SPAN_SECONDS * 1_000 + _AN_HOUR_MS
    last = _LAST % (end, CLOSING.encode(), CLOSING.encode())
    deliver(broker.servers, [Record(CLICKS, last, end, partition=n) for n in range(PARTITIONS)])
    impressions.fill(broker.servers, PAIR, rows // 2, PARTITIONS)
    write_deltalake(
        tables / "current", pa.table(dict(zip(("user", "plan"), _plans(), strict=True)))
    )
    fill_profiles(broker)


def fill_profiles(broker: Broker) -> None:
    """Make the topic of the users' profiles."""
    broker.create_topic(PROFILES, partitions=PARTITIONS, retention_ms=-1)
    deliver(broker.servers, _profiles(*_plans()))


def _plans() -> tuple[list[str], list[str]]:
    """Return the users, and the plan of each."""
    users = [f"user-{number:08d}" for number in range(TABLE_ROWS)]
    return users, [f"plan-{number % 7}" for number in range(TABLE_ROWS)]


def _profiles(users: list[str], plans: list[str]) -> Iterator[Record]:
    before = topic.START_MS - _AN_HOUR_MS
    for user, plan in zip(users, plans, strict=True):
        value = f'{{"user":"{user}","plan":"{plan}","ts":{before}}}'
        yield Record(PROFILES, value.encode(), before, key=user.encode())


def rows_of(servers: str, name: str, *, keyed: bool = False) -> pd.DataFrame:
    """Return what a topic holds that is committed, of JSON objects.

    keyed: the last of each key alone, and none where the last is a tombstone."""
    latest: dict[bytes | None, bytes | None] = {}
    values = []
    for message in _messages(servers, name):
        if keyed:
            latest[message.key()] = message.value()
        else:
            values.append(message.value())
    found = [value for value in (*values, *latest.values()) if value is not None]
    if not found:
        return pd.DataFrame()
    # One schema for all blocks: numbers and texts are in the first as in the last.
    options = json.ReadOptions(block_size=1 << 24)
    rows: pd.DataFrame = json.read_json(
        BytesIO(b"\n".join(found)), read_options=options
    ).to_pandas()
    return rows


def _messages(servers: str, name: str) -> Iterator[Message]:
    """Read a topic up to the end of each partition."""
    with reader(servers, name) as consumer:
        open_parts = {place.partition for place in consumer.assignment()}
        while open_parts:
            for message in consumer.consume(_AT_ONCE, timeout=1):
                if is_end(message):
                    open_parts.discard(message.partition())
                else:
                    yield message


@contextmanager
def reader(servers: str, name: str) -> Iterator[Consumer]:
    """Return a reader of a topic's committed records, from the first of each partition on."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "peers",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    try:
        parts = consumer.list_topics(name, timeout=30).topics[name].partitions
        consumer.assign([TopicPartition(name, part, 0) for part in parts])
        yield consumer
    finally:
        consumer.close()


def is_end(message: Message) -> bool:
    """Return whether a message is no record, but says that its partition has no more for now.

    Raises KafkaException for a fault."""
    fault = message.error()
    if fault is None:
        return False
    if fault.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(fault)
