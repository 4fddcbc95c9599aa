"""A run with metrics and a report, over a topic of old records: good, late and invalid ones."""

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

from tests.support.kafka_topics import page, pages_input
from tidegate import Job, Summary, run
from tidegate.aggregates import count
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.testing.child_process import wait_until
from tidegate.windows import Tumbling, WindowAggregation

RECORD_AGE_SECONDS = 3_600
RETENTION_SECONDS = 86_400
SECONDS: list[float | str] = [1, 4, "<script>", 12, 15, 23, 31, 2, "{}", 44, 57, 59, 71, 80]
"""Two records are invalid: one is not JSON, and one has no page."""


@dataclass(frozen=True)
class ProbedRun:
    """The metrics of a run before its second batch was written, and its summary and report."""

    topic: str
    scrape: str
    summary: Summary
    report_html: str

    @property
    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The values of the scrape, by name and labels."""
        return {(name, labels): value for name, labels, value in samples(self.scrape)}


def probe_run(spark: SparkSession, broker: Broker, root: Path) -> ProbedRun:
    """Run a job that scrapes its own metrics during its second batch."""
    topic, port = "watched", free_port()
    broker.create_topic(topic, partitions=2, retention_ms=RETENTION_SECONDS * 1_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    record_time = int((time.time() - RECORD_AGE_SECONDS) * 1_000)
    for second in SECONDS:
        record = second if isinstance(second, str) else page("p", second)
        producer.produce(topic, record.encode(), partition=0, timestamp=record_time)
    producer.flush()
    scrapes: list[str] = []

    def with_scrape(rows: DataFrame) -> DataFrame:
        scrapes.append("")
        if len(scrapes) == 2:
            wait_until(
                lambda: "tidegate_lag_seconds{" in scrape_metrics(port), timeout=30, event="an age"
            )
            scrapes[1] = scrape_metrics(port)
        return rows

    job = Job(
        name="watched",
        inputs={"pages": pages_input(broker.bootstrap_servers, topic, max_records=7)},
        transform=WindowAggregation(Tumbling("10 seconds"), aggs={"n": count()}),
        each_batch=with_scrape,
        sink=Append(str(root / "views")),
        metrics_port=port,
        report=str(root / "run.html"),
    )
    summary = run(job, spark)
    return ProbedRun(topic, scrapes[1], summary, (root / "run.html").read_text())


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scrape_metrics(port: int) -> str:
    """Return the metrics in the text format of Prometheus."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return str(response.read().decode())


def samples(scrape: str) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Yield each sample of a scrape: its name, its labels and its value."""
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            yield sample.name, tuple(sorted(sample.labels.items())), sample.value
