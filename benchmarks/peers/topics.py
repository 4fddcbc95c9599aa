"""The topics that all contestants read: clicks, impressions with their clicks, user profiles, and
the changes of a table.

The last click of each partition is an hour later, so that all windows close."""

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

from benchmarks.support import change_topic
from benchmarks.support import click_topic as topic
from benchmarks.support import impression_topic as impressions
from benchmarks.support.harness import PARTITIONS
from benchmarks.support.order_table import changes_topic
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

CLICKS = "clicks"
PAIR = (f"{CLICKS}-impressions", f"{CLICKS}-clicks")
PROFILES = "profiles"
CHANGES = changes_topic(CLICKS)
TABLE_ROWS = 100_000
SPAN_SECONDS = 400
"""The event time that the clicks cover, for any number of clicks."""

CLOSING = "closing"
"""The page and user of the last clicks."""

_AN_HOUR_MS = 3_600_000
_MAX_RECORDS = 100_000
_LAST = b'{"ts":%d,"page":"%s","user":"%s","ms":0,"bytes":0}'


def fill(broker: Broker, rows: int, tables: Path) -> None:
    """Create the topics of `rows` clicks and half as many impressions, and the profiles.

    The profiles are a topic for the peers, and a Delta table for Spark."""
    for name in (CLICKS, *PAIR):
        broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
    topic.fill(
        broker.bootstrap_servers, CLICKS, rows, PARTITIONS, rate=max(1, rows // SPAN_SECONDS)
    )
    end = topic.START_MS + SPAN_SECONDS * 1_000 + _AN_HOUR_MS
    last = _LAST % (end, CLOSING.encode(), CLOSING.encode())
    deliver(
        broker.bootstrap_servers,
        [Record(CLICKS, last, end, partition=n) for n in range(PARTITIONS)],
    )
    impressions.fill(broker.bootstrap_servers, PAIR, rows // 2, PARTITIONS)
    write_deltalake(
        tables / "current", pa.table(dict(zip(("user", "plan"), _plans(), strict=True)))
    )
    fill_profiles(broker)


def fill_profiles(broker: Broker) -> None:
    """Create the topic of the user profiles."""
    broker.create_topic(PROFILES, partitions=PARTITIONS, retention_ms=-1)
    deliver(broker.bootstrap_servers, _profiles(*_plans()))


def fill_changes(broker: Broker, rows: int) -> None:
    """Create the topic of the changes of a table."""
    broker.create_topic(CHANGES, partitions=PARTITIONS, retention_ms=-1)
    change_topic.fill(broker.bootstrap_servers, CHANGES, rows, PARTITIONS)


def _plans() -> tuple[list[str], list[str]]:
    """Return the users and their plans."""
    users = [f"user-{number:08d}" for number in range(TABLE_ROWS)]
    return users, [f"plan-{number % 7}" for number in range(TABLE_ROWS)]


def _profiles(users: list[str], plans: list[str]) -> Iterator[Record]:
    before = topic.START_MS - _AN_HOUR_MS
    for user, plan in zip(users, plans, strict=True):
        value = f'{{"user":"{user}","plan":"{plan}","ts":{before}}}'
        yield Record(PROFILES, value.encode(), before, key=user.encode())


def read_topic(servers: str, name: str, *, keyed: bool = False) -> pd.DataFrame:
    """Return the committed JSON records of a topic.

    keyed: only the last record of each key, without tombstones."""
    latest: dict[bytes | None, bytes | None] = {}
    values = []
    for message in _messages(servers, name):
        if keyed:
            latest[message.key()] = message.value()
        else:
            values.append(message.value())
    results = [value for value in (*values, *latest.values()) if value is not None]
    if not results:
        return pd.DataFrame()
    # A large block, so that all columns are in the first one, which determines the schema.
    options = json.ReadOptions(block_size=1 << 24)
    rows: pd.DataFrame = json.read_json(
        BytesIO(b"\n".join(results)), read_options=options
    ).to_pandas()
    return rows


def _messages(servers: str, name: str) -> Iterator[Message]:
    """Read a topic up to the end of each partition."""
    with reader(servers, name) as consumer:
        open_parts = {assigned.partition for assigned in consumer.assignment()}
        while open_parts:
            for message in consumer.consume(_MAX_RECORDS, timeout=1):
                if is_end(message):
                    open_parts.discard(message.partition())
                else:
                    yield message


@contextmanager
def reader(servers: str, name: str) -> Iterator[Consumer]:
    """Return a read_committed consumer of a topic, from its earliest offsets."""
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
    """Return whether a message marks the end of a partition.

    Raises KafkaException for an error."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)
