"""A Kafka source: what it reads, from where, and by which options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.sources import KafkaSource
from tidegate.sources._kafka_options import with_defaults
from tidegate.testing.broker import Broker

from .raw import RECEIVED, produce


def drained(spark: SparkSession, source: KafkaSource, checkpoint: Path) -> tuple[list[str], int]:
    """Return the values that the stream gave, sorted, and its number of batches."""
    values: list[str] = []
    batches = []

    def each(batch: DataFrame, number: int) -> None:
        batches.append(number)
        values.extend(bytes(row.value).decode() for row in batch.collect())

    query = (
        source.stream(spark)
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(values), len(batches)


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    produce(broker.servers, topic, [b"a0", b"a1", b"a2"], partition=0)
    produce(broker.servers, topic, [b"b0", b"b1"], partition=1, at=RECEIVED + timedelta(hours=1))
    return topic


@pytest.mark.broker
def test_topics_pattern_and_partitions_name_the_input(
    spark: SparkSession, broker: Broker, filled: str, tmp_path: Path
) -> None:
    whole = ["a0", "a1", "a2", "b0", "b1"]
    by_topic = KafkaSource(servers=broker.servers, topics=[filled], max_rows=2)
    values, batches = drained(spark, by_topic, tmp_path / "1")
    assert values == whole
    assert batches >= 3
    by_pattern = KafkaSource(servers=broker.servers, pattern=f"{filled[:-3]}.*")
    assert drained(spark, by_pattern, tmp_path / "2") == (whole, 1)
    by_partition = KafkaSource(servers=broker.servers, partitions={filled: [1]}, max_rows=None)
    assert drained(spark, by_partition, tmp_path / "3") == (["b0", "b1"], 1)


@pytest.mark.broker
def test_a_stream_starts_at_offsets_at_a_time_or_at_the_end(
    spark: SparkSession, broker: Broker, filled: str, tmp_path: Path
) -> None:
    def start(value: Any) -> list[str]:
        source = KafkaSource(servers=broker.servers, topics=[filled], start=value)
        return drained(spark, source, tmp_path / str(value).replace(":", ""))[0]

    assert start({filled: {0: 2, 1: -1}}) == ["a2"]
    assert start(RECEIVED + timedelta(minutes=1)) == ["b0", "b1"]
    assert start(RECEIVED + timedelta(days=1)) == []
    assert start("latest") == []


@pytest.mark.broker
def test_a_batch_is_exactly_the_offset_range(
    spark: SparkSession, broker: Broker, filled: str
) -> None:
    source = KafkaSource(
        servers=broker.servers, pattern=filled, options={"minOffsetsPerTrigger": "1"}
    )
    rows = (
        source.between(spark, {filled: {0: 1}}, {filled: {0: 2, 1: 2}}).orderBy("value").collect()
    )
    assert [(bytes(row.value), row.partition, row.offset) for row in rows] == [
        (b"a1", 0, 1),
        (b"b0", 1, 0),
        (b"b1", 1, 1),
    ]
    assert source.between(spark, {filled: {0: 2}}, {filled: {0: 2}}).count() == 0
    with pytest.raises(ArgumentError, match="from 2 to 1"):
        source.between(spark, {filled: {0: 2}}, {filled: {0: 1}})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "no input"),
        ({"topics": ["a"], "pattern": "a"}, "topics and pattern"),
        ({"topics": [""]}, "no topic can be called ''"),
        ({"topics": "a, b"}, r"topics=\['a', 'b'\]"),
        ({"topics": ["a"], "servers": ""}, "localhost:9092"),
        ({"topics": ["a"], "servers": "localhost"}, "host:port"),
        ({"topics": ["a"], "servers": "one:9092,two"}, "host:port"),
        ({"topics": ["a"], "servers": "one:9092,"}, "empty address"),
        ({"topics": ["a"], "servers": "one:99999"}, "host:port"),
        ({"topics": ["a"], "servers": ["one:9092"]}, "servers is .*, a list"),
        ({"topics": ["a"], "max_rows": 0}, "max_rows"),
        ({"topics": ["a"], "start": "yesterday"}, "earliest"),
        ({"topics": ["a"], "start": datetime(2024, 1, 1)}, "no time zone"),
        ({"topics": ["a"], "start": {"b": {0: 1}}}, "just \\['a'\\]"),
        ({"topics": ["a"], "start": {"a": {0: -3}}}, "-2"),
        ({"topics": ["a"], "options": {"StartingOffsets": "latest"}}, "use start"),
        ({"topics": ["a"], "options": {"kafka.bootstrap.servers": "x:1"}}, "use servers"),
        ({"topics": ["a"], "options": {"security.protocol": "SSL"}}, "'kafka.security.protocol'"),
        ({"topics": ["a"], "options": {"groupIdPrefi": "x"}}, "groupIdPrefix"),
        ({"topics": ["a"], "options": {"failOnDataLoss": "false"}}, "use on_data_loss, .*'record'"),
        ({"topics": ["a"], "on_data_loss": "ignore"}, "'stop' or 'record'"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises((ArgumentError, ColumnTypeError), match=says):
        KafkaSource(**({"servers": "localhost:9092"} | arguments))


@pytest.mark.parametrize(
    "servers", ["localhost:9092", "one:1, two:2", "[::1]:9092", "PLAINTEXT://10.0.0.1:9092"]
)
def test_addresses_that_kafka_takes_are_taken(servers: str) -> None:
    assert KafkaSource(servers, "clicks") == KafkaSource(servers=servers, topics=["clicks"])


def test_options_reach_the_reader_and_never_a_repr() -> None:
    given = {
        "kafka.sasl.jaas.config": "canary",
        "KAFKA.isolation.level": "read_uncommitted",
        "minPartitions": "4",
    }
    source = KafkaSource("s:1", "a", start=datetime(2024, 1, 1, tzinfo=UTC), options=given)
    assert "canary" not in repr(source)
    read = with_defaults(source.options, source.servers, headers=False)
    assert given.items() <= read.items()
    assert "kafka.isolation.level" not in read


PAIR = {"a": 2, "b": 2}
"""The partitions of two topics."""


def test_partitions_that_were_added_go_to_the_shares_that_there_are() -> None:
    source = KafkaSource("s:1", ["a", "b"], start={"a": {0: 1, 1: 2}, "b": {0: 3, 1: 4}})
    first = [share.partitions for share in source.shares(PAIR, 3)]
    assert first == [{"a": [0], "b": [1]}, {"a": [1]}, {"b": [0]}]
    before = [{topic: set(parts) for topic, parts in (share or {}).items()} for share in first]
    added = source.shares({"a": 4, "b": 2}, None, before)
    assert [share.partitions for share in added] == [
        {"a": [0], "b": [1]},
        {"a": [1, 2]},
        {"b": [0], "a": [3]},
    ]
    assert added[2].start == {"a": {3: -2}, "b": {0: 3}}


def test_a_start_that_leaves_out_a_partition_cannot_be_shared_out() -> None:
    with pytest.raises(ArgumentError, match="start leaves out a-1"):
        KafkaSource("s:1", "a", start={"a": {0: 1}}).shares({"a": 2}, None)
