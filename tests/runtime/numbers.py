"""A job that keeps no state, over a topic of numbers of which not all fit its schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from tidegate.commit.identity import Identity
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker

from ..tables import rows
from .topics import sent


@dataclass(frozen=True)
class Numbers:
    """A job that keeps no state, over a topic of numbers of which not all fit an INT."""

    broker: Broker
    topic: str
    root: Path

    def job(
        self,
        kind: str = "INT",
        each_batch: Callable[[DataFrame], DataFrame] | None = None,
        max_rows: int | None = None,
    ) -> Job:
        schema = f"n {kind}, event_time TIMESTAMP"
        source = KafkaSource(self.broker.servers, self.topic, max_rows=max_rows)
        read = Reading(source, json_format(schema), time="event_time", lateness="0 seconds")
        return Job(
            name="numbers",
            inputs={"numbers": Input(read)},
            each_batch=each_batch or (lambda rows: rows.selectExpr("cast(n AS DOUBLE) AS n")),
            sink=Append(f"{self.root}/numbers"),
        )

    def send(self, *numbers: float) -> None:
        time = "2026-03-02T09:00:00Z"
        values = [f'{{"n": {number}, "event_time": "{time}"}}' for number in numbers]
        sent(self.broker.servers, self.topic, values)

    def found(self) -> list[float]:
        return sorted(row["n"] for row in rows(self.root / "numbers"))

    def dead(self) -> list[int]:
        return sorted(row["offset"] for row in rows(self.root / "numbers.dead_letters"))

    @property
    def newest(self) -> Path:
        return max(self.root.glob("numbers.checkpoint/tidegate/identity-*.json"))

    @property
    def identity(self) -> Identity:
        return Identity.parse(self.newest.read_bytes(), str(self.newest))

    @property
    def dead_letters(self) -> str:
        return f"{self.root}/numbers.dead_letters"
