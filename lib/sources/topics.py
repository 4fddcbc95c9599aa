"""What a broker says of a source's topics, and whether they are those that were read before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import SequenceMatcher

from pyspark.sql import SparkSession

from ..errors import SourceError
from ..jvm import KafkaClient, TopicState
from .kafka import KafkaSource

_SHOWN = 20

_ANEW = (
    "read what there is now from its start, with a new checkpoint and new tables; the tables of "
    "the former topic stay as they are."
)


def client(spark: SparkSession, source: KafkaSource) -> KafkaClient:
    """Return a client of the broker that a source reads from, which is to be closed."""
    return KafkaClient(spark, source.servers, source.options)


def topic_states(spark: SparkSession, source: KafkaSource) -> dict[str, TopicState]:
    """Ask the broker for the id and the partitions of each topic that a source reads.

    Topics that are not there are left out. Raises OSError where the broker does not answer.
    """
    with client(spark, source) as asked:
        return states_of(asked, source)


def states_of(asked: KafkaClient, source: KafkaSource) -> dict[str, TopicState]:
    """Return what `topic_states` does, by a client that is open already."""
    return asked_states(asked, source)()


def asked_states(asked: KafkaClient, source: KafkaSource) -> Callable[[], dict[str, TopicState]]:
    """Ask for what `states_of` returns, and return what waits for the answer."""
    names = asked.names(source.pattern) if source.pattern else source.named
    return asked.asked(names)


def reads(source: KafkaSource, topic: str, partition: int | None = None) -> bool:
    """Return whether a source names a topic, or one of its partitions."""
    if source.pattern:
        # A pattern is Java's: what Python cannot read of it is left for Spark to tell.
        with suppress(re.error):
            return re.fullmatch(source.pattern, topic) is not None
        return True
    if source.partitions:
        found = source.partitions.get(topic, ())
        return bool(found) if partition is None else partition in found
    return topic in source.topics


def topics_like(name: str, there: Iterable[str]) -> str:
    """Return what an error says of the topics that there are, those with a like name first."""
    near = sorted(there, key=lambda topic: -SequenceMatcher(None, name, topic).ratio())
    if not near:
        return "one of its topics: it has none."
    more = ", ..." if len(near) > _SHOWN else "."
    return f"one of its topics: {', '.join(near[:_SHOWN])}{more}"


def require_same_topics(noted: Mapping[str, str], found: Mapping[str, TopicState]) -> None:
    """Refuse topics that are gone, or were deleted and made again, since they were read.

    noted: the topics' ids when they were read. found: what the broker says now. A topic that was
    not noted is new, and may be read. The offsets of a topic that was made again say nothing of
    those that were read: reading on would leave out what the new topic holds below them.

    Raises SourceError.
    """
    gone = [name for name in noted if name not in found]
    if gone:
        told = ", ".join(f"{name} (id {noted[name]})" for name in gone)
        raise SourceError(
            f"the broker no longer has {told}, of which this job has read.",
            "the topics that were read before.",
            _ANEW,
        )
    other = [name for name, before in noted.items() if found[name].id != before]
    if other:
        told = "; ".join(
            f"{name} had the id {noted[name]} when it was read, and has {found[name].id} now"
            for name in other
        )
        raise SourceError(
            f"a topic was deleted and made again: {told}. Its offsets begin anew, so that reading "
            "on from those in the checkpoint would leave records out.",
            "the topics that were read before.",
            _ANEW,
        )
