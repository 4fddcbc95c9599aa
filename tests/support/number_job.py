"""A stateless job over a topic of numbers, some of which do not fit its schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tidegate import Input, Job
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker


@dataclass(frozen=True)
class NumberJob:
    """A stateless job over a topic of numbers, some of which do not fit an INT."""

    broker: Broker
    topic: str
    root: Path

    def job(
        self,
        type_name: str = "INT",
        each_batch: Callable[[DataFrame], DataFrame] | None = None,
        max_records: int | None = None,
    ) -> Job:
        source = KafkaSource(
            self.broker.bootstrap_servers, self.topic, max_records_per_batch=max_records
        )
        format = json_format(f"n {type_name}, event_time TIMESTAMP")
        return Job(
            name="numbers",
            inputs={
                "numbers": Input(source, format, time="event_time", watermark_delay="0 seconds")
            },
            each_batch=each_batch or (lambda rows: rows.selectExpr("cast(n AS DOUBLE) AS n")),
            sink=Append(f"{self.root}/numbers"),
        )

    def send(self, *numbers: float) -> None:
        time = "2026-03-02T09:00:00Z"
        values = [f'{{"n": {number}, "event_time": "{time}"}}' for number in numbers]
        send_records(self.broker.bootstrap_servers, self.topic, values)

    def values(self) -> list[float]:
        """Return the numbers in the target."""
        return sorted(row["n"] for row in rows(self.root / "numbers"))

    def dead_offsets(self) -> list[int]:
        """Return the offsets of the dead letters."""
        return sorted(row["offset"] for row in rows(self.root / "numbers.dead_letters"))

    @property
    def lineage_file(self) -> Path:
        """The newest lineage file."""
        return max(self.root.glob("numbers.checkpoint/tidegate/lineage-*.json"))

    @property
    def lineage(self) -> CheckpointLineage:
        """The lineage that the last run recorded."""
        return CheckpointLineage.from_json(self.lineage_file.read_bytes(), str(self.lineage_file))

    @property
    def dead_letters(self) -> str:
        """The path of the dead letter table."""
        return f"{self.root}/numbers.dead_letters"
