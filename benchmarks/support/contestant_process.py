"""The process of one contestant: warm up on a small topic, then measure on another topic.

The warm-up ends when two consecutive runs over the small topic take the same time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.support.warm_up import run_until_steady
from tidegate import set_log_level, spark_session
from tidegate.spark.presets import Preset

SAMPLE_SECONDS = 0.2
DRIVER = {"spark.driver.memory": "4g", "spark.ui.enabled": "false"}
"""The settings of all measured drivers."""


@dataclass(frozen=True)
class RunContext:
    """The broker, the topic and the output folder of a run."""

    servers: str
    topic: str
    folder: Path

    @property
    def tables(self) -> Path:
        """The folder of the input tables, shared by the runs of a contestant."""
        return self.folder.parent / "tables"


Contestant = Callable[[SparkSession, RunContext], None]
Prepare = Callable[[SparkSession, Path, int], None]
"""Writes input tables to a folder, for topics of a number of rows."""


class Usage:
    """Peak resident memory in MiB and CPU seconds of this process, its JVM and Python workers."""

    def __init__(self) -> None:
        self.mib = 0.0
        self.cpu = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Usage:
        self.cpu = -cpu_seconds(os.getpid())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += cpu_seconds(os.getpid())
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.mib = max(self.mib, resident_mib(os.getpid()))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants."""
    return sum(_each(pid, lambda process: sum(process.cpu_times()[:4])))


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and its descendants."""
    return sum(_each(pid, _resident)) / 1024**2


def _resident(process: psutil.Process) -> float:
    """Return the resident bytes of a process; 0 for a new process.

    A JVM that starts a command is briefly forked, and both processes share one memory.
    """
    grown = time.time() - process.create_time() > SAMPLE_SECONDS
    return float(process.memory_info().rss) if grown else 0.0


def _each(pid: int, measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield measure(process)


def bench_session(preset: Preset | None = None, *, java: str | None = None) -> SparkSession:
    """Return the session of all measurements.

    java: JVM options; default: those of `spark_session`."""
    conf = dict(DRIVER)
    if java is not None:
        conf["spark.driver.defaultJavaOptions"] = java
    spark = spark_session("bench", master="local[2]", conf=conf, preset=preset)
    set_log_level(spark)
    return spark


def run_contestant(contestants: Mapping[str, Contestant], prepare: Prepare | None = None) -> None:
    """Run one contestant, and write FOLDER/measured.json.

    Command line: NAME SERVERS WARM_TOPIC TOPIC ROWS FOLDER."""
    name, servers, warm, topic, rows, folder = sys.argv[1:]
    spark = bench_session()
    context = RunContext(servers, topic, Path(folder) / "measured")
    if prepare is not None:
        prepare(spark, context.tables, int(rows))
    warm_up(
        lambda own: contestants[name](spark, RunContext(servers, warm, own)), Path(folder) / "warm"
    )
    results = measure(spark, contestants[name], context)
    (Path(folder) / "measured.json").write_text(json.dumps(results), encoding="utf-8")


def warm_up(run: Callable[[Path], object], folder: Path) -> None:
    """Call `run` with a new folder each time until its times agree."""

    def once(number: int) -> float:
        started_at = time.monotonic()
        run(folder.with_name(f"{folder.name}-{number}"))
        return time.monotonic() - started_at

    run_until_steady(once)


def measure(spark: SparkSession, contestant: Contestant, context: RunContext) -> dict[str, float]:
    """Run a contestant; return its time, CPU time, memory and output rows.

    "matched" counts the rows with a plan, for contestants that look up plans."""
    with Usage() as usage:
        started_at = time.monotonic()
        contestant(spark, context)
        seconds = time.monotonic() - started_at
    results = {"seconds": seconds, "cpu": usage.cpu, "peak_mib": usage.mib, "rows_out": 0.0}
    results["matched"] = 0.0
    path = context.folder / "table"
    if path.exists():
        table = spark.read.format("delta").load(str(path))
        results["rows_out"] = table.count()
        if "plan" in table.columns:
            results["matched"] = table.where("plan IS NOT NULL").count()
    return results
