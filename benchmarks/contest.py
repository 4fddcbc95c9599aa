"""One contestant in a process of its own: warmed up on a small topic, then measured on the large one.

python -m benchmarks.contest NAME SERVERS WARM_TOPIC TOPIC FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import psutil

from lib.runtime.session import quiet, session

from .contestants import CONTESTANTS, Place

_SAMPLE_SECONDS = 0.2


class Peak:
    """The largest resident memory of this process, its JVM and its Python workers, in MiB."""

    def __init__(self) -> None:
        self.mib = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        here = psutil.Process(os.getpid())
        while not self._done.wait(_SAMPLE_SECONDS):
            total = 0
            for process in [here, *here.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.mib = max(self.mib, total / 1024**2)


def main(name: str, servers: str, warm: str, topic: str, folder: str) -> None:
    """Run the contestant and print what was measured as one line of JSON."""
    spark = session("bench", master="local[2]", conf={"spark.driver.memory": "4g", "spark.ui.enabled": "false"})
    quiet(spark)
    contestant, place = CONTESTANTS[name], Path(folder)
    contestant(spark, Place(servers, warm, place / "warm"))
    with Peak() as peak:
        began = time.monotonic()
        contestant(spark, Place(servers, topic, place / "measured"))
        seconds = time.monotonic() - began
    table = place / "measured" / "table"
    rows = spark.read.format("delta").load(str(table)).count() if table.exists() else 0
    print(json.dumps({"name": name, "seconds": seconds, "peak_mib": peak.mib, "rows_out": rows}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
