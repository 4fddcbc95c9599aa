"""The topic, checkpoint and tables of a windowed job after two runs, for tests that damage them."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

FIRST: list[float | str] = [1, 4, "no record", 12, 15, 23, 31]
SECOND: list[float | str] = [38, 2, 44, "nor this", 57, 59, 71]
THIRD: list[float | str] = [80, 93, 5, "nor that", 101]
WINDOWS = {0: 2, 10: 2, 20: 1, 30: 2, 40: 1, 50: 2, 70: 1, 80: 1, 90: 1}
"""The number of records in each window after three runs, by its first second.

The window of the last record is open, and two records are late.
"""


@dataclass(frozen=True)
class JobFiles:
    """The files of a job after two runs under `root`, and after the first run under `before`."""

    broker: Broker
    topic: str
    root: Path
    before: Path

    @classmethod
    def create(cls, spark: SparkSession, broker: Broker, topic: str, root: Path) -> JobFiles:
        """Run the job twice."""
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        job_files = cls(broker, topic, root / "after", root / "before")
        send_records(broker.bootstrap_servers, topic, FIRST)
        run(job_files.job(), spark)
        shutil.copytree(job_files.root, job_files.before)
        send_records(broker.bootstrap_servers, topic, SECOND)
        run(job_files.job(), spark)
        return job_files

    def copy_to(self, path: Path) -> JobFiles:
        """Return a copy of the checkpoint and the tables, for the same topic."""
        shutil.copytree(self.root, path)
        copy = replace(self, root=path, before=self.before)
        copy.lineage_files[-1].write_text(moved_lineage(copy.lineage, self.root, path).to_json())
        return copy

    def job(self, **options: object) -> Job:
        """Return the job, with other arguments than the default ones."""
        defaults: dict[str, object] = {
            "name": "left",
            "inputs": {"pages": pages_input(self.broker.bootstrap_servers, self.topic)},
            "transform": WindowAggregation(Tumbling("10 seconds"), aggs={"n": count()}),
            "sink": Append(str(self.root / "views")),
        }
        return Job(**{**defaults, **options})  # type: ignore[arg-type]

    @property
    def checkpoint(self) -> Path:
        """The path of the checkpoint."""
        return self.root / "views.checkpoint"

    @property
    def lineage_files(self) -> list[Path]:
        """The lineage files of the checkpoint, the newest last."""
        return sorted((self.checkpoint / "tidegate").glob("lineage-*.json"))

    @property
    def lineage(self) -> CheckpointLineage:
        """The lineage that the last run recorded."""
        newest = self.lineage_files[-1]
        return CheckpointLineage.from_json(newest.read_bytes(), str(newest))

    def window_counts(self) -> dict[int, int]:
        """Return the count of each window in the target, by its first second; require no copies."""
        windows = [(row["window"]["start"], row["n"]) for row in rows(self.root / "views")]
        assert len({start for start, _ in windows}) == len(windows), f"duplicates: {windows}"
        return {int(start.timestamp()) % 3600: n for start, n in sorted(windows)}

    def side_rows(self, table: str) -> Counter[tuple[int, int]]:
        """Return the partition and offset of each row in a side output table."""
        table_rows = rows(self.root / f"views.{table}", ["partition", "offset"])
        return Counter((row["partition"], row["offset"]) for row in table_rows)


def moved_lineage(lineage: CheckpointLineage, old: Path, new: Path) -> CheckpointLineage:
    """Return a lineage whose tables are in another folder."""
    tables = {
        output: replace(recorded, path=recorded.path.replace(str(old), str(new)))
        for output, recorded in lineage.tables.items()
    }
    return replace(lineage, tables=tables)
