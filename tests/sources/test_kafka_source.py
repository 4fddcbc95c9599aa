"""A Kafka source: its topics, start, ranges and options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.raw_records import RECEIVED, produce
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.kafka.client_options import with_defaults
from tidegate.sources import KafkaSource
from tidegate.testing.broker import Broker


def drain(spark: SparkSession, source: KafkaSource, checkpoint: Path) -> tuple[list[str], int]:
    """Run the stream to the end; return its sorted values and its number of batches."""
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
    produce(broker.bootstrap_servers, topic, [b"a0", b"a1", b"a2"], partition=0)
    produce(
        broker.bootstrap_servers,
        topic,
        [b"b0", b"b1"],
        partition=1,
        at=RECEIVED + timedelta(hours=1),
    )
    return topic


@pytest.mark.broker
def test_topics_pattern_and_partitions_name_the_input(
    spark: SparkSession, broker: Broker, filled: str, tmp_path: Path
) -> None:
    all_values = ["a0", "a1", "a2", "b0", "b1"]
    by_topic = KafkaSource(
        bootstrap_servers=broker.bootstrap_servers, topics=[filled], max_records_per_batch=2
    )
    values, batches = drain(spark, by_topic, tmp_path / "1")
    assert values == all_values
    assert batches >= 3
    by_pattern = KafkaSource(bootstrap_servers=broker.bootstrap_servers, pattern=f"{filled[:-3]}.*")
    assert drain(spark, by_pattern, tmp_path / "2") == (all_values, 1)
    # A pattern matches whole names, not a part of one.
    broker.create_topic(f"{filled}.dead")
    produce(broker.bootstrap_servers, f"{filled}.dead", [b"dead"])
    by_name = KafkaSource(broker.bootstrap_servers, pattern=f"(?i){filled.upper()}|x{filled}")
    assert drain(spark, by_name, tmp_path / "4") == (all_values, 1)
    by_partition = KafkaSource(
        bootstrap_servers=broker.bootstrap_servers,
        partitions={filled: [1]},
        max_records_per_batch=None,
    )
    assert drain(spark, by_partition, tmp_path / "3") == (["b0", "b1"], 1)


@pytest.mark.broker
def test_a_stream_starts_at_offsets_at_a_time_or_at_the_end(
    spark: SparkSession, broker: Broker, filled: str, tmp_path: Path
) -> None:
    def start(value: Any) -> list[str]:
        source = KafkaSource(
            bootstrap_servers=broker.bootstrap_servers, topics=[filled], start=value
        )
        return drain(spark, source, tmp_path / str(value).replace(":", ""))[0]

    assert start({filled: {0: 2, 1: -1}}) == ["a2"]
    assert start(RECEIVED + timedelta(minutes=1)) == ["b0", "b1"]
    assert start(RECEIVED + timedelta(days=1)) == []
    assert start("latest") == []


@pytest.mark.broker
def test_a_batch_is_exactly_the_offset_range(
    spark: SparkSession, broker: Broker, filled: str
) -> None:
    source = KafkaSource(
        bootstrap_servers=broker.bootstrap_servers,
        pattern=filled,
        options={"minOffsetsPerTrigger": "1"},
    )
    rows = (
        source.read_range(spark, {filled: {0: 1}}, {filled: {0: 2, 1: 2}})
        .orderBy("value")
        .collect()
    )
    assert [(bytes(row.value), row.partition, row.offset) for row in rows] == [
        (b"a1", 0, 1),
        (b"b0", 1, 0),
        (b"b1", 1, 1),
    ]
    assert source.read_range(spark, {filled: {0: 2}}, {filled: {0: 2}}).count() == 0
    with pytest.raises(ArgumentError, match=r"invalid range of .*: 2 to 1"):
        source.read_range(spark, {filled: {0: 2}}, {filled: {0: 1}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "none of the arguments"),
        ({"topics": ["a"], "pattern": "a"}, "topics and pattern"),
        ({"topics": [""]}, "invalid topic name: ''"),
        ({"topics": "a, b"}, r"topics=\['a', 'b'\]"),
        ({"topics": ["a"], "bootstrap_servers": ""}, "localhost:9092"),
        ({"topics": ["a"], "bootstrap_servers": "localhost"}, "host:port"),
        ({"topics": ["a"], "bootstrap_servers": "one:9092,two"}, "host:port"),
        (
            {"topics": ["a"], "bootstrap_servers": "one:9092,"},
            "invalid bootstrap_servers: 'one:9092,'",
        ),
        ({"topics": ["a"], "bootstrap_servers": "one:99999"}, "host:port"),
        (
            {"topics": ["a"], "bootstrap_servers": ["one:9092"]},
            r"servers: \['one:9092'\]",
        ),
        ({"topics": ["a"], "max_records_per_batch": 0}, "invalid max_records_per_batch: 0"),
        ({"topics": ["a"], "start": "yesterday"}, "earliest"),
        ({"topics": ["a"], "start": datetime(2024, 1, 1)}, "without a time zone"),
        ({"topics": ["a"], "start": {"b": {0: 1}}}, r"exactly the topics \['a'\]"),
        ({"topics": ["a"], "start": {"a": {0: -3}}}, "-2"),
        ({"topics": ["a"], "options": {"StartingOffsets": "latest"}}, "try: start"),
        (
            {"topics": ["a"], "options": {"kafka.bootstrap.servers": "x:1"}},
            "try: bootstrap_servers",
        ),
        ({"topics": ["a"], "options": {"security.protocol": "SSL"}}, "'kafka.security.protocol'"),
        ({"topics": ["a"], "options": {"groupIdPrefi": "x"}}, "groupIdPrefix"),
        (
            {"topics": ["a"], "options": {"failOnDataLoss": "false"}},
            "try: on_data_loss='stop' or",
        ),
        ({"topics": ["a"], "on_data_loss": "ignore"}, "'stop', 'record'"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((ArgumentError, ColumnTypeError), match=message):
        KafkaSource(**({"bootstrap_servers": "localhost:9092"} | arguments))


@pytest.mark.parametrize(
    "servers", ["localhost:9092", "one:1, two:2", "[::1]:9092", "PLAINTEXT://10.0.0.1:9092"]
)
def test_addresses_that_kafka_accepts_are_accepted(servers: str) -> None:
    assert KafkaSource(servers, "clicks") == KafkaSource(
        bootstrap_servers=servers, topics=["clicks"]
    )


def test_options_reach_the_reader_and_never_a_repr() -> None:
    options = {
        "kafka.sasl.jaas.config": "canary",
        "KAFKA.isolation.level": "read_uncommitted",
        "minPartitions": "4",
    }
    source = KafkaSource("s:1", "a", start=datetime(2024, 1, 1, tzinfo=UTC), options=options)
    assert "canary" not in repr(source)
    reader_options = with_defaults(source.options, source.bootstrap_servers, headers=False)
    assert options.items() <= reader_options.items()
    assert "kafka.isolation.level" not in reader_options


PAIR = {"a": 2, "b": 2}
"""The partitions of two topics."""


def test_added_partitions_join_the_streams_with_the_fewest() -> None:
    source = KafkaSource("s:1", ["a", "b"], start={"a": {0: 1, 1: 2}, "b": {0: 3, 1: 4}})
    shares = [share.partitions for share in source.partition_shares(PAIR)]
    assert shares == [{"a": [0]}, {"a": [1]}, {"b": [0]}, {"b": [1]}]
    in_checkpoint = [{"a": {0}, "b": {1}}, {"a": {1}}, {"b": {0}}]
    added = source.partition_shares({"a": 4, "b": 2}, in_checkpoint)
    assert [share.partitions for share in added] == [
        {"a": [0], "b": [1]},
        {"a": [1, 2]},
        {"b": [0], "a": [3]},
    ]
    assert added[2].start == {"a": {3: -2}, "b": {0: 3}}


def test_a_start_that_omits_a_partition_cannot_be_divided() -> None:
    with pytest.raises(ArgumentError, match="invalid start: no offset of a-1"):
        KafkaSource("s:1", "a", start={"a": {0: 1}}).partition_shares({"a": 2})
