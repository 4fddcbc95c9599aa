"""A run that is looked at: a topic of old records, with bad, late and good ones."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.summary import Summary
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.testing.process import until
from tidegate.windows import Tumbling, Windowed

from .topics import page, reading

AGE = 3_600
KEPT = 86_400
SECONDS: list[float | str] = [1, 4, "<script>", 12, 15, 23, 31, 2, "{}", 44, 57, 59, 71, 80]
"""Two records cannot be read: one is no JSON, and one has no page."""


@dataclass(frozen=True)
class Watched:
    """What a run has told: over HTTP before its second batch was written, and at its end."""

    topic: str
    scrape: str
    done: Summary
    page: str

    @property
    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The scrape's values by name and labels."""
        return {(name, labels): value for name, labels, value in samples(self.scrape)}


def watched(spark: SparkSession, broker: Broker, root: Path) -> Watched:
    """Run a job that asks for its own numbers while its second batch is in the works."""
    topic, port = "watched", free_port()
    broker.create_topic(topic, partitions=2, retention_ms=KEPT * 1_000)
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    then = int((time.time() - AGE) * 1_000)
    for second in SECONDS:
        record = second if isinstance(second, str) else page("p", second)
        producer.produce(topic, record.encode(), partition=0, timestamp=then)
    producer.flush()
    told: list[str] = []

    def looked_at(rows: DataFrame) -> DataFrame:
        told.append("")
        if len(told) == 2:
            until(lambda: "tidegate_lag_seconds{" in asked(port), within=30, what="an age")
            told[1] = asked(port)
        return rows

    job = Job(
        name="watched",
        inputs={"pages": Input(reading(broker.servers, topic, max_rows=7))},
        transform=Windowed(Tumbling("10 seconds"), aggs={"n": count()}),
        each_batch=looked_at,
        sink=Append(str(root / "views")),
        metrics_port=port,
        report=str(root / "run.html"),
    )
    done = run(job, spark)
    return Watched(topic, told[1], done, (root / "run.html").read_text())


def free_port() -> int:
    """Return a port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(port: int) -> str:
    """Return what Prometheus would get."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def samples(scrape: str) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Return each sample of a scrape: its name, its labels and its value."""
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            yield sample.name, tuple(sorted(sample.labels.items())), sample.value
