"""One contestant in a process of its own: warmed up on a small topic, measured on a large one.

python -m benchmarks.contest NAME SERVERS WARM_TOPIC TOPIC FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tidegate.runtime.process.session import quiet, spark_session

from .contestants import CONTESTANTS, Place

_SAMPLE_SECONDS = 0.2


class Usage:
    """What this process, its JVM and its Python workers take: the largest resident memory in MiB,
    and CPU seconds."""

    def __init__(self) -> None:
        self.mib = 0.0
        self.cpu = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Usage:
        self.cpu = -_cpu_seconds()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += _cpu_seconds()
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.mib = max(self.mib, sum(_each(_resident)) / 1024**2)


def _cpu_seconds() -> float:
    return sum(_each(lambda process: sum(process.cpu_times()[:4])))


def _resident(process: psutil.Process) -> float:
    """Return a process's resident bytes; none for one that has just begun.

    A JVM that starts a command is there twice for a moment, with one memory.
    """
    grown = time.time() - process.create_time() > _SAMPLE_SECONDS
    return float(process.memory_info().rss) if grown else 0.0


def _each(measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    here = psutil.Process(os.getpid())
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield measure(process)


def main(name: str, servers: str, warm: str, topic: str, folder: str) -> None:
    """Run the contestant and leave what was measured in the folder, as measured.json."""
    spark = spark_session(
        "bench", master="local[2]", conf={"spark.driver.memory": "4g", "spark.ui.enabled": "false"}
    )
    quiet(spark)
    contestant, place = CONTESTANTS[name], Path(folder)
    contestant(spark, Place(servers, warm, place / "warm"))
    with Usage() as usage:
        began = time.monotonic()
        contestant(spark, Place(servers, topic, place / "measured"))
        seconds = time.monotonic() - began
    table = place / "measured" / "table"
    rows = spark.read.format("delta").load(str(table)).count() if table.exists() else 0
    found = {
        "name": name,
        "seconds": seconds,
        "cpu": usage.cpu,
        "peak_mib": usage.mib,
        "rows_out": rows,
    }
    (place / "measured.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
