"""Rounds of records with a dead letter and a late row each, and the job that counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql import SparkSession

from tests.support.checkpoint_files import JobFiles
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.testing import Broker


def windows_job(servers: str, topic: str, root: Path, **options: object) -> Job:
    """Return a job that counts pages by 10 seconds, three records a batch."""
    job_files = JobFiles(SimpleNamespace(bootstrap_servers=servers), topic, root, root)  # type: ignore[arg-type]
    inputs = {"pages": pages_input(servers, topic, max_records=3)}
    return job_files.job(inputs=inputs, **options)


@dataclass
class Rounds:
    """The records of a topic, in rounds of two batches with a dead and a late record each."""

    spark: SparkSession
    broker: Broker
    topic: str
    root: Path
    sent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker.create_topic(self.topic, partitions=1, retention_ms=-1)
        self.job = windows_job(self.broker.bootstrap_servers, self.topic, self.root)
        self.add()
        run(self.job, self.spark)

    def add(self) -> None:
        """Send a round; the first record of all rounds but the first is late."""
        start = len(self.sent) // 4 * 100
        seconds = [start + second for second in (1, 12, 31, 61)]
        records: list[float | str] = [*seconds[:2], "no record", *seconds[2:]]
        send_records(
            self.broker.bootstrap_servers,
            self.topic,
            [start - 95, *records] if start else records,
        )
        self.sent += seconds

    def require_each_once(self) -> None:
        """Require each window, dead letter and late row of the rounds once, and each batch once."""
        started = len(self.sent) // 4
        expected = Counter(second // 10 * 10 for second in self.sent)
        # The window of the newest record is open.
        del expected[self.sent[-1] // 10 * 10]
        found = rows(self.root / "views")
        start = min(row["window"]["start"] for row in found)
        assert Counter({
            int((row["window"]["start"] - start).total_seconds()): row["n"] for row in found
        }) == expected  # fmt: skip
        assert len(found) == len(expected)
        assert len(rows(self.root / "views.dead_letters")) == started
        assert len(rows(self.root / "views.late")) == started - 1
        for table in ("views", "views.dead_letters", "views.late"):
            written = batches(self.root, table)
            assert written == sorted(set(written)), f"{table} has a batch twice: {written}"
