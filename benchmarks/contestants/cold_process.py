"""A cold process: start a session, then run a query three times.

Command line: QUERY SERVERS TOPIC FOLDER JAVA_OPTIONS. The program writes FOLDER/measured.json."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil

from benchmarks.contestants.window_queries import CONTESTANTS
from benchmarks.support.contestant_process import RunContext, bench_session, cpu_seconds
from benchmarks.support.harness import Run
from benchmarks.support.jvm_time import read_jvm_times
from tidegate.spark.spark_logging import spark_log_option

RUNS = 3


def main() -> None:
    """Start, run the query, and write the measurements."""
    query, servers, topic, folder, java = sys.argv[1:]
    spark = bench_session(java=f"{java} {spark_log_option()}")
    here = os.getpid()
    results: Run = {
        "session": time.time() - psutil.Process(here).create_time(),
        "session_cpu": cpu_seconds(here),
    }
    known = read_jvm_times(spark)
    results |= {f"session_{name}": number for name, number in known.items()}
    for number in range(RUNS):
        context = RunContext(servers, topic, Path(folder) / str(number))
        before = cpu_seconds(here)
        started_at = time.time()
        CONTESTANTS[query](spark, context)
        took = {"seconds": time.time() - started_at, "cpu": cpu_seconds(here) - before}
        took["first_commit"] = _first_commit(context.folder / "table") - started_at
        now = read_jvm_times(spark)
        took |= {name: now[name] - known[name] for name in now}
        known = now
        results |= {f"{name}_{number}": figure for name, figure in took.items()}
    (Path(folder) / "measured.json").write_text(json.dumps(results), encoding="utf-8")


def _first_commit(table: Path) -> float:
    return min(file.stat().st_mtime for file in (table / "_delta_log").glob("*.json"))


if __name__ == "__main__":
    main()
