"""The values that a header has in the committed records of a topic behind some offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..errors import SourceError
from .kafka import Cluster

_SECONDS = 60.0


def headers_behind(
    cluster: Cluster, topic: str, header: str, since: Mapping[int, int], ends: Mapping[int, int]
) -> set[str]:
    """Return a header's values in the committed records between two offsets of each partition.

    `since` has the first offset of a partition, 0 where it names none; `ends` the one behind the
    last.

    Raises KafkaException where the records are no longer there, and SourceError where a transaction
    stays open before the end.
    """
    reader = Consumer({
        "bootstrap.servers": cluster.servers, "group.id": "tidegate-redrive",
        "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0,
        "enable.partition.eof": True, "auto.offset.reset": "error", **cluster.options,
    })  # fmt: skip
    begins = {part: since.get(part, 0) for part in ends}
    waiting = {part for part, end in ends.items() if end > begins[part]}
    try:
        reader.assign([TopicPartition(topic, part, begins[part]) for part in waiting])
        return _read(reader, topic, header, ends, waiting)
    finally:
        reader.close()


def _read(
    reader: Consumer, topic: str, header: str, ends: Mapping[int, int], waiting: set[int]
) -> set[str]:
    """Return the values up to the ends; what waits is emptied."""
    found: set[str] = set()
    deadline = time.monotonic() + _SECONDS
    while waiting:
        message = reader.poll(1.0)
        if time.monotonic() > deadline:
            raise SourceError(f"{topic} could not be read to its end: is a transaction open?")
        if message is None:
            continue
        error = message.error()
        if error is None:
            deadline = time.monotonic() + _SECONDS
            found |= _values(message, header)
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        # Below the end there may be a transaction that is open, and behind it our records.
        elif (message.offset() or 0) >= ends[message.partition() or 0]:
            waiting.discard(message.partition() or 0)
    return found


def _values(message: Message, header: str) -> set[str]:
    headers: Any = message.headers() or ()
    return {bytes(value).decode() for name, value in headers if name == header}
