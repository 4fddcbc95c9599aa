"""The timelines job over topics of a small network, and the timelines that it left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tidegate.testing import Broker
from tidegate.testing.timelines import Entry, Topic

from ..sinks import second_engine


def options(broker: Broker, topics: dict[Topic, str]) -> dict[str, object]:
    """Return what the job needs to read the topics, and few buckets: the network is small."""
    own = {f"{name}.topics": topic for name, topic in topics.items()}
    return {"kafka.servers": broker.servers, "view.buckets": 4, **own}


def timelines(root: Path) -> Counter[Entry]:
    """Read the timelines without Spark."""
    rows = second_engine.read(root / "timelines", "follower, author, post_id, text, name")
    return Counter(
        (row["follower"], row["author"], row["post_id"], row["text"], row["name"]) for row in rows
    )
