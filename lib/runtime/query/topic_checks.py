"""Whether the topics of an input are those that its checkpoint has read, before a query starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...jvm import TopicState
from ...offsets import Offsets
from ...sinks import DeadTopic
from ...sources import KafkaSource
from ...sources.topics import reads, require_same_topics
from ..job import Input


def require_topics(
    source: KafkaSource,
    found: Mapping[str, TopicState] | None,
    noted: Mapping[str, str],
    read: Offsets,
) -> str:
    """Refuse topics that are gone or were made again; tell which there are.

    found: what the broker says of them; None where it is silent. noted: the ids of all topics of
    the checkpoint. read: up to where it has read.

    Raises SourceError.
    """
    if found is None:
        return f"{source.servers} does not answer: not checked"
    wanted = set(found) | set(source.named)
    if source.pattern and source.on_data_loss == "stop":
        wanted |= {topic for topic in read if reads(source, topic)}
    require_same_topics({topic: noted[topic] for topic in noted if topic in wanted}, found)
    return ", ".join(f"{topic} ({state.partitions})" for topic, state in found.items())


def gone(
    inputs: Mapping[str, Input], topics: Mapping[str, Mapping[str, TopicState]], read: Offsets
) -> list[str]:
    """Tell of topics that a checkpoint has read, and the brokers that answered no longer have.

    topics: what they say, by the input's name. Where lost records stop the job, and where a topic
    is named, that is refused; of a pattern's topic nothing tells what was not read of it.
    """
    there = {topic for found in topics.values() for topic in found}
    asked = [inputs[name].reading.source for name in topics]
    return [
        f"the topic {topic} is gone, and with it what was not read of it"
        for topic in read
        if topic not in there and any(reads(source, topic) for source in asked)
    ]


def dead_topics(now: DeadTopic | None, before: Iterable[str]) -> tuple[str, ...]:
    """Return every topic that a checkpoint's dead letters may be in, in order."""
    mine = set() if now is None else {now.topic}
    return tuple(sorted(mine.union(before)))
