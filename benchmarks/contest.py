"""One contestant in a process of its own: warmed up on a small topic, then measured on another.

It is warm when two runs in a row over the small topic took as long as each other."""

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

from tidegate.runtime import quiet, spark_session
from tidegate.runtime.process.presets import Preset

from .steady import until_steady

SAMPLE_SECONDS = 0.2


@dataclass(frozen=True)
class Place:
    """Where a run reads and writes."""

    servers: str
    topic: str
    folder: Path

    @property
    def tables(self) -> Path:
        """The folder of the tables that both runs of a contestant read."""
        return self.folder.parent / "tables"


Contestant = Callable[[SparkSession, Place], None]
Prepare = Callable[[SparkSession, Path, int], None]
"""Writes the tables that contestants read into a folder, for topics of so many rows."""


class Usage:
    """What this process, its JVM and its Python workers take: the largest resident memory in MiB,
    and CPU seconds."""

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
    """Return the CPU time of a process, and of all that it has started."""
    return sum(_each(pid, lambda process: sum(process.cpu_times()[:4])))


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, and of all that it has started."""
    return sum(_each(pid, _resident)) / 1024**2


def _resident(process: psutil.Process) -> float:
    """Return a process's resident bytes; none for one that has just begun.

    A JVM that starts a command is there twice for a moment, with one memory.
    """
    grown = time.time() - process.create_time() > SAMPLE_SECONDS
    return float(process.memory_info().rss) if grown else 0.0


def _each(pid: int, measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield measure(process)


def started(preset: Preset | None = None, *, java: str | None = None) -> SparkSession:
    """Return the session that everything is measured in.

    java: the options of its JVM; those of any session unless given."""
    conf = {"spark.driver.memory": "4g", "spark.ui.enabled": "false"}
    if java is not None:
        conf["spark.driver.defaultJavaOptions"] = java
    spark = spark_session("bench", master="local[2]", conf=conf, preset=preset)
    quiet(spark)
    return spark


def compete(contestants: Mapping[str, Contestant], prepare: Prepare | None = None) -> None:
    """Run one contestant, and leave what was measured in its folder, as measured.json.

    The command line says: NAME SERVERS WARM_TOPIC TOPIC ROWS FOLDER."""
    name, servers, warm, topic, rows, folder = sys.argv[1:]
    spark = started()
    place = Place(servers, topic, Path(folder) / "measured")
    if prepare is not None:
        prepare(spark, place.tables, int(rows))
    warm_up(lambda own: contestants[name](spark, Place(servers, warm, own)), Path(folder) / "warm")
    found = measured(spark, contestants[name], place)
    (Path(folder) / "measured.json").write_text(json.dumps(found), encoding="utf-8")


def warm_up(run: Callable[[Path], object], folder: Path) -> None:
    """Run what takes a folder, a new one beside this one each time, until its times agree."""

    def once(number: int) -> float:
        began = time.monotonic()
        run(folder.with_name(f"{folder.name}-{number}"))
        return time.monotonic() - began

    until_steady(once)


def measured(spark: SparkSession, contestant: Contestant, place: Place) -> dict[str, float]:
    """Run a contestant, and return what it took and what its table holds.

    "met" counts the rows that found a plan, for contestants that look for plans."""
    with Usage() as usage:
        began = time.monotonic()
        contestant(spark, place)
        seconds = time.monotonic() - began
    found = {"seconds": seconds, "cpu": usage.cpu, "peak_mib": usage.mib, "rows_out": 0.0}
    found["met"] = 0.0
    path = place.folder / "table"
    if path.exists():
        table = spark.read.format("delta").load(str(path))
        found["rows_out"] = table.count()
        if "plan" in table.columns:
            found["met"] = table.where("plan IS NOT NULL").count()
    return found
