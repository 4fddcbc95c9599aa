"""Jobs with deterministic lateness (watermarks="log"), their topics, and an oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.delta_tables import is_there, rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job
from tidegate.aggregates import count
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.transform import Transform
from tidegate.windows import Deduplication, Hopping, Session, Sliding, Tumbling, WindowAggregation

WATERMARK_DELAY_SECONDS = 5
MINUTE = WindowAggregation(Tumbling("20 seconds"), by="page", aggs={"n": count()})
TRANSFORMS: dict[str, tuple[Transform, Callable[[float], float]]] = {
    "tumbling": (MINUTE, lambda at: at // 20 * 20 + 20),
    "hopping": (
        WindowAggregation(Hopping("20 seconds", "5 seconds"), by="page", aggs={"n": count()}),
        lambda at: at // 5 * 5 + 5,
    ),
    # Sessions consist of slices of an eighth of the gap.
    "session": (
        WindowAggregation(Session("8 seconds"), by="page", aggs={"n": count()}),
        lambda at: at + 1,
    ),
}
"""Transforms, each with a function from the second of a row to the second at which it is late."""
OTHER_TRANSFORMS: dict[str, Transform] = {
    "sliding": WindowAggregation(Sliding("10 seconds"), by="page", aggs={"n": count()}),
    "deduplication": Deduplication("page", "9 seconds", max_delay="3 seconds"),
}


@dataclass(frozen=True)
class DisorderedTopics:
    """Topics of three partitions whose rows are out of order by more than the watermark delay."""

    broker: Broker
    root: Path
    topics: tuple[str, ...]

    def send(self, first: int, last: int) -> list[list[float | str]]:
        """Send rows and an invalid record to each partition; return them by partition."""
        drawn = random.Random(first)
        logs: list[list[float | str]] = []
        for topic in self.topics:
            for partition in range(3):
                active = [float(at) for at in range(first, last) if drawn.random() < 0.6]
                # Each partition has its own speed, and every tenth row is far behind.
                behind = [drawn.choice([0] * 9 + [40]) + drawn.uniform(0, 9) for _ in active]
                log: list[float | str] = [
                    at for _, at in sorted(zip(behind, active, strict=True), key=sum)
                ]
                log.insert(len(log) // 2, "no record")
                send_records(self.broker.bootstrap_servers, topic, log, partition)
                logs.append(log)
        return logs

    def job(self, transform: Transform, name: str, max_records: int = 60, **options: Any) -> Job:
        """Return a job with its own tables, and at most `max_records` records per batch."""
        inputs = {
            each: replace(
                pages_input(
                    self.broker.bootstrap_servers,
                    topic,
                    watermark_delay=f"{WATERMARK_DELAY_SECONDS} seconds",
                    max_records=max_records,
                ),
                watermarks="log",
            )
            for each, topic in zip(("left", "right"), self.topics, strict=False)
        }
        sink = Append(str(self.root / name / "rows"))
        defaults = {"inputs": inputs, "transform": transform, "sink": sink}
        return Job(**{"name": "by-log", **defaults, **options})

    def table_rows(self, name: str) -> dict[str, Counter[str]]:
        """Return the rows of all tables of a job, without columns that depend on batches."""
        folder = self.root / name
        return {
            table.name: Counter(map(str, map(_without_batch_columns, rows(table))))
            for table in sorted(folder.glob("rows*"))
            if is_there(table)
        }


def _without_batch_columns(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in sorted(row) if name not in ("batch", "written_at")}


def late_offsets(
    logs: Sequence[Sequence[float | str]], late_at: Callable[[float], float]
) -> Counter[tuple[int, int]]:
    """Return the partition and offset of each late row."""
    late: Counter[tuple[int, int]] = Counter()
    for partition, log in enumerate(logs):
        max_time = float("-inf")
        for offset, at in enumerate(log):
            if isinstance(at, str):
                continue
            late[partition, offset] += late_at(at) <= max_time - WATERMARK_DELAY_SECONDS
            max_time = max(max_time, at)
    return +late
