"""One cold process: it starts, and runs a query three times.

The command line says: QUERY SERVERS TOPIC FOLDER JAVA_OPTIONS. What was measured is left in the
folder, as measured.json."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil

from tidegate.runtime.process.logs import spark_log

from .contest import Place, cpu_seconds, started
from .contestants import CONTESTANTS
from .harness import Run
from .jvm_time import spent

RUNS = 3


def main() -> None:
    """Start, run the query, and leave what was measured."""
    query, servers, topic, folder, java = sys.argv[1:]
    spark = started(java=f"{java} {spark_log()}")
    here = os.getpid()
    found: Run = {
        "session": time.time() - psutil.Process(here).create_time(),
        "session_cpu": cpu_seconds(here),
    }
    known = spent(spark)
    found |= {f"session_{name}": number for name, number in known.items()}
    for number in range(RUNS):
        place = Place(servers, topic, Path(folder) / str(number))
        before = cpu_seconds(here)
        began = time.time()
        CONTESTANTS[query](spark, place)
        took = {"seconds": time.time() - began, "cpu": cpu_seconds(here) - before}
        took["first_commit"] = _first_commit(place.folder / "table") - began
        now = spent(spark)
        took |= {name: now[name] - known[name] for name in now}
        known = now
        found |= {f"{name}_{number}": figure for name, figure in took.items()}
    (Path(folder) / "measured.json").write_text(json.dumps(found), encoding="utf-8")


def _first_commit(table: Path) -> float:
    return min(file.stat().st_mtime for file in (table / "_delta_log").glob("*.json"))


if __name__ == "__main__":
    main()
