"""The rivals of the benchmark of latency: Flink and Kafka Streams, exactly once into a topic; and
Spark's real-time mode, at least once."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from tidegate.runtime.process.installation import environment
from tidegate.testing.process import GuardedProcess

from ..contest import Place
from .contestants import flink, streams
from .installing import LIVE
from .topics import is_end, reader

QUERIES = ("enrichment", "updates", "final windows", "join")
_KNOWN = re.compile(rb'"known":(\d+)')
_AT_ONCE = 10_000
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Rival:
    """A contestant: a process that takes QUERY SERVERS TOPIC OUTPUT FOLDER, and the words after."""

    query: str
    program: tuple[str, ...]
    more: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def told(self, spark: SparkSession, place: Place, seconds: float) -> pd.DataFrame:
        """Run for so many seconds, and return when each row was `known`, and `at` could be read.

        A reader that takes committed records alone meets them as soon as they are."""
        del spark
        output = answers(place.topic)
        place.folder.mkdir(parents=True, exist_ok=True)
        words = [self.query, place.servers, place.topic, output, str(place.folder), *self.more]
        process = GuardedProcess(
            [*self.program, *words],
            place.folder / "log",
            name=output,
            env=environment(**self.variables),
        )
        ends = time.monotonic() + seconds
        found: list[tuple[int, float]] = []
        try:
            with reader(place.servers, output) as consumer:
                while time.monotonic() < ends:
                    process.require_alive()
                    found += _read(consumer)
        finally:
            process.kill()
        return pd.DataFrame(found, columns=["known", "at"])


REAL_TIME = {
    "enrichment, Spark in real time": Rival(
        "enrichment", (sys.executable, "-m", "benchmarks.real_time")
    )
}


def answers(topic: str) -> str:
    """Return the topic that a rival writes to."""
    return f"{topic}-answers"


def _read(consumer: Consumer) -> Iterator[tuple[int, float]]:
    """Read what there is, and return of each row when it was known, and the time of now."""
    messages = consumer.consume(_AT_ONCE, timeout=_POLL_SECONDS)
    at = time.time() * 1_000
    for message in messages:
        value = None if is_end(message) else message.value()
        known = _KNOWN.search(value) if value else None
        if known:
            yield int(known[1]), at


def rivals() -> dict[str, Rival]:
    """Return the rivals of each query by name, as they are installed."""
    found = dict(REAL_TIME)
    for query in QUERIES:
        found[f"{query}, Flink"] = Rival(query, *flink("flink_live.py"))
        found[f"{query}, Kafka Streams"] = Rival(query, streams(LIVE))
    return found
