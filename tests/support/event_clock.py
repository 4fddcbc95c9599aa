"""Snapshots of a windowed job's checkpoint and tables at several times, for any combination."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.checkpoint_files import FIRST, SECOND, THIRD, JobFiles, moved_lineage
from tests.support.kafka_topics import send_records
from tidegate import run
from tidegate.errors import TidegateError
from tidegate.testing import Broker
from tidegate.testing.crash_points import crash_after

Record = float | str
RECORDS: list[Record] = [*FIRST, *SECOND, *THIRD]
SNAPSHOT_NAMES = ("none", "first", "second", "unfinished", "third")
"""Before the job, and after each of its three runs.

"unfinished" is a crash in the third run, after the dead letters are written and before the target.
"""
SIDE_TABLES = ("views.dead_letters", "views.late")
WINDOW_SECONDS = 10


@dataclass(frozen=True)
class JobSnapshots:
    """Copies of a job's checkpoint and tables, each in a folder named after its snapshot."""

    job_files: JobFiles
    folder: Path

    @classmethod
    def create(cls, spark: SparkSession, broker: Broker, topic: str, folder: Path) -> JobSnapshots:
        """Run the job three times, with a crash in the third run, and copy its files each time."""
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        job_files = JobFiles(broker, topic, folder / "job", folder)
        (folder / "none").mkdir(parents=True)
        for name, records in (("first", FIRST), ("second", SECOND), ("unfinished", THIRD)):
            send_records(broker.bootstrap_servers, topic, records)
            if name == "unfinished":
                with crash_after(job_files.root / SIDE_TABLES[0]), suppress(TidegateError):
                    run(job_files.job(), spark)
            else:
                run(job_files.job(), spark)
            shutil.copytree(job_files.root, folder / name)
        run(job_files.job(), spark)
        shutil.copytree(job_files.root, folder / "third")
        return cls(job_files, folder)

    def combine(self, path: Path, checkpoint: str, target: str, side_tables: str) -> JobFiles:
        """Return files with the checkpoint, target and side tables of these snapshots."""
        path.mkdir()
        parts = {
            "views.checkpoint": checkpoint,
            "views": target,
            **dict.fromkeys(SIDE_TABLES, side_tables),
        }
        for name, snapshot in parts.items():
            if (self.folder / snapshot / name).exists():
                shutil.copytree(self.folder / snapshot / name, path / name)
        combined = replace(self.job_files, root=path)
        if combined.lineage_files:
            lineage = moved_lineage(combined.lineage, self.job_files.root, path)
            combined.lineage_files[-1].write_text(lineage.to_json())
        return combined


def data_files(root: Path) -> dict[str, set[str]]:
    """Return the data files of each table."""
    return {
        name: {file.name for file in (root / name).glob("*.parquet")}
        for name in ("views", *SIDE_TABLES)
    }


def require_each_once(
    job_files: JobFiles, records: Mapping[int, Record], *, without: Sequence[int] = ()
) -> None:
    """Require each record, by its offset, in exactly one table: target, late rows or dead letters.

    without: the first seconds of windows that are not compared.
    """
    good = {at: float(each) for at, each in records.items() if not isinstance(each, str)}
    late = job_files.side_rows("late")
    assert set(late.values()) <= {1}, f"duplicate late rows: {late}"
    assert {at for _, at in late} <= set(good), f"late rows that are not decodable: {late}"
    counted = Counter(
        int(second // WINDOW_SECONDS) * WINDOW_SECONDS
        for at, second in good.items()
        if (0, at) not in late
    )
    closed = {
        start: n for start, n in counted.items() if start + WINDOW_SECONDS <= max(good.values())
    }
    windows = job_files.window_counts()
    for start in without:
        closed.pop(start, None)
        windows.pop(start, None)
    assert windows == closed
    dead_letters = Counter((0, at) for at, each in records.items() if isinstance(each, str))
    assert job_files.side_rows("dead_letters") == dead_letters
