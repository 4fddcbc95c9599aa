"""A checkpoint continues after the renaming of classes, fields, modules and functions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.checkpoint_files import FIRST, SECOND
from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.spark.jars import jars_home, project_root
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.jobs]

PROGRAM = """
import logging
import sys
from functools import partial

from pyspark.sql import functions as F

from tidegate import Input, Job, KafkaSource, aggregates as agg, json_format, run, spark_session
from tidegate.jobs.output_sections import with_date
from tidegate.sinks import Append, FanOut, MapRows
from tidegate.windows import Tumbling, WindowAggregation


def at_least(least):
    return lambda rows: rows.where(F.col("n") >= least)


servers, topic, root, size = sys.argv[1:]
spark = spark_session("renamed")
logging.basicConfig(level=logging.INFO, format="%(message)s")
dated = MapRows(
    rows=partial(with_date, time="started"), sink=Append(f"{root}/dated", output="dated")
)
frequent = MapRows(rows=at_least(2), sink=Append(f"{root}/frequent", output="frequent"))
job = Job(
    name="renamed",
    inputs={
        "pages": Input(
            KafkaSource(servers, topic),
            json_format("page STRING NOT NULL, event_time TIMESTAMP"),
            time="event_time",
            watermark_delay="0 seconds",
            future_tolerance=None,
        )
    },
    transform=WindowAggregation(
        Tumbling(size),
        by="page",
        aggs={
            "n": agg.count(),
            "length": agg.avg(F.length("page")),
            "started": agg.min("event_time"),
        },
    ),
    sink=FanOut(Append(f"{root}/views"), other_sinks=[dated, frequent]),
)
run(job, spark)
"""
RENAMED = {
    r"\bTumbling\b": "FixedWindows",
    r"\bFanOut\b": "Branches",
    r"\bother_sinks\b": "further_sinks",
    r"\bfuture_tolerance\b": "max_future",
    r"\.tumbling import\b": ".fixed_windows import",
    r"\.fingerprint import\b": ".plan_texts import",
    r"\b_one_or_zero\b": "_presence",
    r"\b_reduce_values\b": "_fold_values",
    r"(?<![\"'])\bwith_date\b(?![\"'])": "add_utc_date",
}
"""Two classes, two fields, two modules and three functions, by the pattern of their names."""
MOVED = {
    "windows/tumbling.py": "windows/fixed_windows.py",
    "job/fingerprint.py": "job/plan_texts.py",
}
RENAMED_LOCAL = (r"(?<![\"'.])\bvalue\b(?![\"'=])", "operand")
"""The variable of the aggregates that their functions close over."""
PINNED = {
    "sinks/fan_out.py": ('plan_name: ClassVar[str] = "fan_out"', "further_sinks", "other_sinks"),
    "sources/input.py": ('plan_name: ClassVar[str] = "input"', "max_future", "future_tolerance"),
}
"""What a maintainer adds for a renamed field: the key that checkpoints have."""


@dataclass(frozen=True)
class Ran:
    """The end of a run of the program."""

    code: int
    output: str


def run_program(program: Path, library: Path, *arguments: str) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(library)}
    run = subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    return Ran(run.returncode, run.stdout + run.stderr)


def renamed(text: str) -> str:
    for pattern, name in RENAMED.items():
        text = re.sub(pattern, name, text)
    return text


def renamed_library(folder: Path) -> Path:
    """Copy the library with other names, and with the keys that its checkpoints have."""
    root = project_root()
    package = folder / "tidegate"
    shutil.copytree(root / "lib", package, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    for name in ("conf", "jars.lock", jars_home().name):
        (folder / name).symlink_to(root / name)
    for path in package.rglob("*.py"):
        path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
    aggregates = package / "aggregates.py"
    pattern, name = RENAMED_LOCAL
    aggregates.write_text(re.sub(pattern, name, aggregates.read_text(encoding="utf-8")))
    for file, (declaration, field, key) in PINNED.items():
        text = (package / file).read_text(encoding="utf-8")
        assert declaration in text
        pin = f'{declaration}\n    plan_keys: ClassVar = {{"{field}": "{key}"}}'
        (package / file).write_text(text.replace(declaration, pin), encoding="utf-8")
    for old, new in MOVED.items():
        (package / old).rename(package / new)
    return folder


def window_counts(root: Path, table: str) -> dict[tuple[str, int], int]:
    """Return the counts by page and the first second of the window; require no window twice."""
    windows = [
        ((row["page"], int(row["window"]["start"].timestamp()) % 3600), row["n"])
        for row in rows(root / table)
    ]
    assert max(Counter(key for key, _ in windows).values()) == 1
    return dict(windows)


def recorded_fingerprint(tables: Path) -> Mapping[str, str]:
    newest = max((tables / "views.checkpoint" / "tidegate").glob("lineage-*.json"))
    return CheckpointLineage.from_json(newest.read_bytes(), str(newest)).fingerprint


def test_a_checkpoint_continues_after_renames_and_refuses_another_window(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    tables = tmp_path / "tables"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    arguments = (broker.bootstrap_servers, topic, str(tables))
    send_records(broker.bootstrap_servers, topic, FIRST)
    first = run_program(program, project_root(), *arguments, "10 seconds")
    assert first.code == 0, first.output
    assert window_counts(tables, "views") == {("p0", 0): 2, ("p0", 10): 2, ("p0", 20): 1}
    fingerprint = recorded_fingerprint(tables)

    send_records(broker.bootstrap_servers, topic, SECOND)
    library = renamed_library(tmp_path / "library")
    program.write_text(renamed(PROGRAM), encoding="utf-8")
    second = run_program(program, library, *arguments, "10 seconds")
    assert second.code == 0, second.output
    assert "changed from" not in second.output
    assert recorded_fingerprint(tables) == fingerprint
    expected = {0: 2, 10: 2, 20: 1, 30: 2, 40: 1, 50: 2}
    assert window_counts(tables, "views") == {("p0", key): n for key, n in expected.items()}
    assert window_counts(tables, "dated") == window_counts(tables, "views")
    frequent = {("p0", key): n for key, n in expected.items() if n > 1}
    assert window_counts(tables, "frequent") == frequent

    program.write_text(PROGRAM, encoding="utf-8")
    other_window = run_program(program, project_root(), *arguments, "20 seconds")
    assert other_window.code != 0
    assert "the checkpoint does not fit the job: transform changed from" in other_window.output
    assert "window=tumbling(size=0:00:10)" in other_window.output
