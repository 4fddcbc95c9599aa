"""Topic ids: a topic that was deleted and created again is another one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.raw_records import produce
from tidegate.errors import SourceError
from tidegate.jvm import TopicState
from tidegate.kafka.client_options import describe_similar_topics
from tidegate.sources import KafkaSource
from tidegate.sources.topics import open_kafka_client, require_same_topics, topic_states
from tidegate.testing import Broker

RECORDED = {"clicks": "A", "views": "B"}
"""The recorded ids of topics, by name."""


@pytest.mark.parametrize(
    ("current", "message"),
    [
        ({"clicks": "A", "views": "B"}, None),
        ({"clicks": "A", "views": "B", "new": "C"}, None),
        ({"clicks": "A", "views": "X"}, "views had the id B when it was read, and has X now"),
        ({"clicks": "B", "views": "A"}, "clicks had the id A .*; views had the id B"),
        ({"clicks": "A"}, r"no longer has views \(id B\)"),
    ],
)
def test_topics_that_differ_from_the_recorded_ones_are_refused_by_name_and_id(
    current: dict[str, str], message: str | None
) -> None:
    states = {name: TopicState(each, 1) for name, each in current.items()}
    if message is None:
        require_same_topics(RECORDED, states)
    else:
        with pytest.raises(SourceError, match=message) as refusal:
            require_same_topics(RECORDED, states)
        assert "new checkpoint and new tables" in refusal.value.remedy


def test_topics_with_a_similar_name_are_listed_first() -> None:
    description = describe_similar_topics(
        "clics", [*(f"a{number}" for number in range(100)), "clicks"]
    )
    assert description.startswith("the broker has the topics clicks, a")
    assert description.endswith(", ...")
    assert describe_similar_topics("clics", []) == "the broker has no topics."


@pytest.mark.broker
def test_a_broker_has_ids_partitions_and_earliest_offsets(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [b"a", b"b"], partition=1)
    source = KafkaSource(broker.bootstrap_servers, [topic, f"{topic}-none"])
    first = topic_states(spark, source)
    assert {name: each.partitions for name, each in first.items()} == {topic: 3}
    by_pattern = KafkaSource(broker.bootstrap_servers, pattern=f"{topic[:-4]}....")
    assert topic_states(spark, by_pattern) == first
    broker.delete_records(topic, {1: 1})
    with open_kafka_client(spark, source) as client:
        assert client.earliest_offsets({topic: [0, 1]}) == {topic: {0: 0, 1: 1}}
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    recorded = {name: each.id for name, each in first.items()}
    with pytest.raises(SourceError, match="deleted and created again"):
        require_same_topics(recorded, topic_states(spark, source))


def test_a_broker_that_does_not_respond_is_an_os_error(spark: SparkSession) -> None:
    with pytest.raises(OSError, match=r"nowhere\.invalid:1 has no client: .*bootstrap"):
        topic_states(spark, KafkaSource("nowhere.invalid:1", "clicks"))
