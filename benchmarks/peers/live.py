"""The peers of the latency benchmark: Flink, Kafka Streams, and the real-time mode of Spark.

Flink and Kafka Streams write exactly once to a topic, the real-time mode at least once."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from benchmarks.peers.contestants import flink, streams
from benchmarks.peers.installing import LIVE
from benchmarks.peers.topics import is_end, reader
from benchmarks.support.contestant_process import RunContext
from tidegate.testing.child_process import GuardedProcess

QUERIES = ("enrichment", "updates", "final windows", "join")
_KNOWN = re.compile(rb'"known":(\d+)')
_MAX_RECORDS = 10_000
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class PeerProcess:
    """A contestant: a process that takes QUERY SERVERS TOPIC OUTPUT FOLDER, then `more`."""

    query: str
    program: tuple[str, ...]
    more: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def measure(self, spark: SparkSession, context: RunContext, seconds: float) -> pd.DataFrame:
        """Run for `seconds`; return when each row was `known`, and `at` when it was readable.

        A read_committed consumer receives rows as soon as they are committed."""
        del spark
        output = answers(context.topic)
        context.folder.mkdir(parents=True, exist_ok=True)
        arguments = [
            self.query,
            context.servers,
            context.topic,
            output,
            str(context.folder),
            *self.more,
        ]
        process = GuardedProcess(
            [*self.program, *arguments],
            context.folder / "log",
            name=output,
            env={**os.environ, **self.variables},
        )
        ends = time.monotonic() + seconds
        results: list[tuple[int, float]] = []
        try:
            with reader(context.servers, output) as consumer:
                while time.monotonic() < ends:
                    process.require_alive()
                    results += _read(consumer)
        finally:
            process.kill()
        return pd.DataFrame(results, columns=["known", "at"])


REAL_TIME = {
    "enrichment, Spark real-time mode": PeerProcess(
        "enrichment", (sys.executable, "-m", "benchmarks.contestants.real_time_mode")
    )
}


def answers(topic: str) -> str:
    """Return the output topic of a peer."""
    return f"{topic}-answers"


def _read(consumer: Consumer) -> Iterator[tuple[int, float]]:
    """Read available records; yield when each was known, and the current time."""
    messages = consumer.consume(_MAX_RECORDS, timeout=_POLL_SECONDS)
    at = time.time() * 1_000
    for message in messages:
        value = None if is_end(message) else message.value()
        known = _KNOWN.search(value) if value else None
        if known:
            yield int(known[1]), at


def peer_contestants() -> dict[str, PeerProcess]:
    """Return the installed peers of each query by name."""
    results = dict(REAL_TIME)
    for query in QUERIES:
        results[f"{query}, Flink"] = PeerProcess(query, *flink("flink_live.py"))
        results[f"{query}, Kafka Streams"] = PeerProcess(query, streams(LIVE))
    return results
