"""A world of rows that are late by the log: what is sent, the jobs that read it, and an oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.aggregates import count
from tidegate.runtime.job import Input, Job
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.transform import Transform
from tidegate.windows import Deduplication, Hopping, Session, Sliding, Tumbling, Windowed

from ..tables import is_there, rows
from .topics import reading, sent

LATENESS = 5
MINUTE = Windowed(Tumbling("20 seconds"), by="page", aggs={"n": count()})
# When a row is late, in seconds after the start, by its own second.
TRANSFORMS: dict[str, tuple[Transform, Callable[[float], float]]] = {
    "tumbling": (MINUTE, lambda at: at // 20 * 20 + 20),
    "hopping": (
        Windowed(Hopping("20 seconds", "5 seconds"), by="page", aggs={"n": count()}),
        lambda at: at // 5 * 5 + 5,
    ),
    # Sessions are made of slices of an eighth of the gap.
    "session": (
        Windowed(Session("8 seconds"), by="page", aggs={"n": count()}),
        lambda at: at + 1,
    ),
}
OTHERS: dict[str, Transform] = {
    "sliding": Windowed(Sliding("10 seconds"), by="page", aggs={"n": count()}),
    "deduplication": Deduplication("page", "9 seconds", hold="3 seconds"),
}


@dataclass(frozen=True)
class World:
    """Topics of three partitions whose rows are out of order, more than the lateness allows."""

    broker: Broker
    root: Path
    topics: tuple[str, ...]

    def send(self, first: int, last: int) -> list[list[float | str]]:
        """Send rows to each partition, and a record that is none; return them by partition."""
        drawn = random.Random(first)
        logs: list[list[float | str]] = []
        for topic in self.topics:
            for partition in range(3):
                active = [float(at) for at in range(first, last) if drawn.random() < 0.6]
                # A partition of its own speed, and every tenth row far behind.
                behind = [drawn.choice([0] * 9 + [40]) + drawn.uniform(0, 9) for _ in active]
                log: list[float | str] = [
                    at for _, at in sorted(zip(behind, active, strict=True), key=sum)
                ]
                log.insert(len(log) // 2, "no record")
                sent(self.broker.servers, topic, log, partition)
                logs.append(log)
        return logs

    def job(self, transform: Transform, name: str, max_rows: int = 60, **others: Any) -> Job:
        """Return a job that reads so many rows a batch, with tables of its own."""
        lateness = f"{LATENESS} seconds"
        inputs = {
            each: Input(
                reading(self.broker.servers, topic, lateness=lateness, max_rows=max_rows),
                watermarks="log",
            )
            for each, topic in zip(("left", "right"), self.topics, strict=False)
        }
        sink = Append(str(self.root / name / "rows"))
        parts = {"inputs": inputs, "transform": transform, "sink": sink}
        return Job(**{"name": "by-log", **parts, **others})

    def found(self, name: str) -> dict[str, Counter[str]]:
        """Return the rows of all tables of a job, without what tells of batches."""
        folder = self.root / name
        return {
            table.name: Counter(map(str, map(_own, rows(table))))
            for table in sorted(folder.glob("rows*"))
            if is_there(table)
        }


def _own(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in sorted(row) if name not in ("batch", "written_at")}


def late_places(
    logs: Sequence[Sequence[float | str]], late_at: Callable[[float], float]
) -> Counter[tuple[int, int]]:
    """Return the partition and offset of each row that is late."""
    found: Counter[tuple[int, int]] = Counter()
    for partition, log in enumerate(logs):
        newest = float("-inf")
        for offset, at in enumerate(log):
            if isinstance(at, str):
                continue
            found[partition, offset] += late_at(at) <= newest - LATENESS
            newest = max(newest, at)
    return +found
