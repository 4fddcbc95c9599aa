"""Topics' identity: a topic that was deleted and made again is another one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import SourceError
from tidegate.jvm import TopicState
from tidegate.sources import KafkaSource
from tidegate.sources.topics import client, require_same_topics, topic_states, topics_like
from tidegate.testing import Broker

from .raw import produce

NOTED = {"clicks": "A", "views": "B"}
"""Names and ids of topics, as they were when they were read."""


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"clicks": "A", "views": "B"}, None),
        ({"clicks": "A", "views": "B", "new": "C"}, None),
        ({"clicks": "A", "views": "X"}, "views had the id B when it was read, and has X now"),
        ({"clicks": "B", "views": "A"}, "clicks had the id A .*; views had the id B"),
        ({"clicks": "A"}, r"no longer has views \(id B\)"),
    ],
)
def test_topics_are_those_that_were_read_before_or_are_refused_by_name_and_id(
    found: dict[str, str], says: str | None
) -> None:
    states = {name: TopicState(each, 1) for name, each in found.items()}
    if says is None:
        require_same_topics(NOTED, states)
    else:
        with pytest.raises(SourceError, match=says) as told:
            require_same_topics(NOTED, states)
        assert "new checkpoint and new tables" in told.value.hint


def test_the_topics_with_a_like_name_are_told_first_where_there_are_many() -> None:
    told = topics_like("clics", [*(f"a{number}" for number in range(100)), "clicks"])
    assert told.startswith("one of its topics: clicks, a")
    assert told.endswith(", ...")
    assert topics_like("clics", []) == "one of its topics: it has none."


@pytest.mark.broker
def test_a_broker_tells_ids_partitions_and_first_offsets(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    produce(broker.servers, topic, [b"a", b"b"], partition=1)
    source = KafkaSource(broker.servers, [topic, f"{topic}-none"])
    first = topic_states(spark, source)
    assert {name: each.partitions for name, each in first.items()} == {topic: 3}
    by_pattern = KafkaSource(broker.servers, pattern=f"{topic[:-4]}....")
    assert topic_states(spark, by_pattern) == first
    broker.delete_records(topic, {1: 1})
    with client(spark, source) as asked:
        assert asked.earliest({topic: [0, 1]}) == {topic: {0: 0, 1: 1}}
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    noted = {name: each.id for name, each in first.items()}
    with pytest.raises(SourceError, match="deleted and made again"):
        require_same_topics(noted, topic_states(spark, source))


def test_a_broker_that_does_not_answer_is_an_os_error(spark: SparkSession) -> None:
    with pytest.raises(OSError, match=r"nowhere\.invalid:1 has no client: .*bootstrap"):
        topic_states(spark, KafkaSource("nowhere.invalid:1", "clicks"))
