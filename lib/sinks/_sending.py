"""Records to a topic by Spark's own writer, and what goes wrong there in the library's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import ArgumentError, ColumnError, TidegateError, TopicError
from ..jvm import KafkaClient, message
from ._records import NULL_KEY

_OURS = ("kafka.bootstrap.servers", "kafka.acks", "kafka.enable.idempotence")
_SURE = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
_SIZES = ("RecordTooLargeException", "RecordBatchTooLargeException")
_REFUSED = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.(\w+)|KafkaException): ([^\n]*)")
_SHOWN = 200


class Target(Protocol):
    """Where records go."""

    @property
    def servers(self) -> str:
        """The brokers."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def options(self) -> Mapping[str, str]:
        """Settings of the producer."""


def require_producer_options(names: Iterable[str]) -> None:
    """Refuse options that the library sets, and those that would not reach Kafka's producer."""
    for name in names:
        if name.lower() in _OURS:
            raise ArgumentError(
                f"options holds {name!r}.",
                "other settings: the servers are an argument; acks=all and idempotence stay.",
            )
        if not name.lower().startswith("kafka."):
            raise ArgumentError(
                f"options holds {name!r}, which Kafka's producer would not get.",
                "kafka.* for Kafka's client.",
                f"'kafka.{name}'",
            )


def require_topic(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, str]
) -> None:
    """Refuse a topic that is not there: a broker might make it, with its default partitions."""
    try:
        with KafkaClient(spark, servers, options) as client:
            there = client.states([topic])
    except OSError as error:
        raise TopicError(
            f"the broker of the topic {topic} does not answer: {error}",
            hint="check the broker's address and the options of Kafka's client.",
        ) from error
    if topic not in there:
        raise TopicError(
            f"there is no topic {topic} at {servers}.",
            "a topic that exists: its partitions and its retention are the owner's to choose.",
            f"tidegate topics --servers {servers} --create {topic}:4",
        )


def send(records: DataFrame, target: Target) -> int:
    """Send records, each acknowledged by all replicas in sync, and return how many there are."""
    kept = records.persist()
    try:
        number = kept.count()
        if number:
            options = {**target.options, **_SURE, "kafka.bootstrap.servers": target.servers}
            writer = kept.write.format("kafka").option("topic", target.topic)
            writer.options(**options).save()
        return number
    except Exception as error:
        explained = _explained(error, kept, target)
        if explained is None:
            raise
        raise explained from error
    finally:
        kept.unpersist()


def _explained(error: Exception, records: DataFrame, target: Target) -> TidegateError | None:
    """Return the library's error for one of Spark's; None for one that is not of the sending."""
    text = message(error)
    null = re.search(rf"{NULL_KEY}: column (\S+)", text)
    if null is not None:
        return ColumnError(
            f"the key column {null[1]} is null in a row of the batch; nothing was sent.",
            "a key in each row: copies and tombstones are told by it.",
            "leave such rows out in the job's transform, or name several columns as key.",
        )
    if any(name in text for name in _SIZES):
        return _too_large(records, target.topic)
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    return TopicError(
        f"the topic {target.topic} did not take all records of the batch: {refused[1]}: "
        f"{refused[2]}",
        hint="see to the broker or the topic, then start the job again: it sends the batch anew, "
        "with the same ids.",
    )


def _too_large(records: DataFrame, topic: str) -> TopicError:
    """Name the largest record, which is the one that was refused or one as bad."""
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(
        F.octet_length("value"), F.lit(0)
    )
    largest = records.select("key", size.alias("size")).orderBy(F.desc("size")).head()
    key, bytes_ = (b"", 0) if largest is None else (bytes(largest["key"] or b""), largest["size"])
    return TopicError(
        f"a record for the topic {topic} is too large: the key "
        f"{key[:_SHOWN].decode(errors='replace')!r} with its value has {bytes_:,} bytes.",
        "what kafka.max.request.size of the producer and max.message.bytes of the topic allow, "
        "1 MiB unless set.",
        "make the value smaller in the transform, or raise both.",
    )
