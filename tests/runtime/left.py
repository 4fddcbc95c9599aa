"""A windowed job's topic, checkpoint and tables, as two runs have left them, to be damaged."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.commit.identity import Identity
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Tumbling, Windowed

from ..tables import rows
from .topics import reading, sent

FIRST: list[float | str] = [1, 4, "no record", 12, 15, 23, 31]
SECOND: list[float | str] = [38, 2, 44, "nor this", 57, 59, 71]
THIRD: list[float | str] = [80, 93, 5, "nor that", 101]
WINDOWS = {0: 2, 10: 2, 20: 1, 30: 2, 40: 1, 50: 2, 70: 1, 80: 1, 90: 1}
"""How many records each window holds once all three runs have been, by its first second; that of
the last record is open, and two records came late."""


@dataclass(frozen=True)
class Left:
    """What two runs have left under `root`, and the first of them under `before`."""

    broker: Broker
    topic: str
    root: Path
    before: Path

    @classmethod
    def made(cls, spark: SparkSession, broker: Broker, topic: str, root: Path) -> Left:
        """Run the job twice."""
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        left = cls(broker, topic, root / "after", root / "before")
        sent(broker.servers, topic, FIRST)
        run(left.job(), spark)
        shutil.copytree(left.root, left.before)
        sent(broker.servers, topic, SECOND)
        run(left.job(), spark)
        return left

    def copied(self, to: Path) -> Left:
        """Return a copy of checkpoint and tables, over the same topic."""
        shutil.copytree(self.root, to)
        made = replace(self, root=to, before=self.before)
        noted = made.identity
        here = {
            step: replace(mark, path=mark.path.replace(str(self.root), str(to)))
            for step, mark in noted.tables.items()
        }
        made.identities[-1].write_text(replace(noted, tables=here).text())
        return made

    def job(self, **others: object) -> Job:
        """Return the job, with other arguments where they are given."""
        parts: dict[str, object] = {
            "name": "left",
            "inputs": {"pages": Input(reading(self.broker.servers, self.topic))},
            "transform": Windowed(Tumbling("10 seconds"), aggs={"n": count()}),
            "sink": Append(str(self.root / "views")),
        }
        return Job(**{**parts, **others})  # type: ignore[arg-type]

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint."""
        return self.root / "views.checkpoint"

    @property
    def identities(self) -> list[Path]:
        """The identity files, the newest last."""
        return sorted((self.checkpoint / "tidegate").glob("identity-*.json"))

    @property
    def identity(self) -> Identity:
        """What the last start has left."""
        newest = self.identities[-1]
        return Identity.parse(newest.read_bytes(), str(newest))

    def views(self) -> dict[int, int]:
        """Return the windows that are in the table, by their first second; none of them twice."""
        found = [(row["window"]["start"], row["n"]) for row in rows(self.root / "views")]
        assert len({start for start, _ in found}) == len(found), f"a window twice: {found}"
        return {int(start.timestamp()) % 3600: n for start, n in sorted(found)}

    def aside(self, table: str) -> Counter[tuple[int, int]]:
        """Return the places of the rows in a side table."""
        found = rows(self.root / f"views.{table}", ["partition", "offset"])
        return Counter((row["partition"], row["offset"]) for row in found)
