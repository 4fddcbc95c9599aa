"""Measure the cold start of a job, and how JVM options shorten it.

python -m benchmarks.cases.cold_start [--rows 2000000] [--rounds 3] [--only NAME]...

A new process computes tumbling windows in batches of a million clicks: in plain PySpark, and in the
library with a class archive (CDS), with the C1 compiler only, with both, and with neither. Each
process runs the query three times, each time into a new table. The archive is built by
`tidegate class-archive`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.contestants.cold_process import RUNS
from benchmarks.support.click_topic import fill
from benchmarks.support.harness import (
    PARTITIONS,
    Bench,
    Only,
    Output,
    Rounds,
    Run,
    Runs,
    report,
    run_module,
    select_contestants,
    start_bench,
)
from benchmarks.support.jvm_time import CLASSES, COMPILING, GENERATING, LOADING, SHARED
from tidegate.spark.session import cds_options
from tidegate.testing.child_process import C1_COMPILER_OPTIONS

SECONDS = 200
"""The event time between the first and the last click, so that windows close."""
PYSPARK, DEFAULT, ARCHIVED = "plain PySpark", "tidegate", "class archive"
CONTESTANTS = {
    PYSPARK: ("tumbling (PySpark)", False, ""),
    DEFAULT: ("tumbling", False, ""),
    ARCHIVED: ("tumbling", True, ""),
    "C1 only": ("tumbling", False, C1_COMPILER_OPTIONS),
    f"{ARCHIVED}, C1 only": ("tumbling", True, C1_COMPILER_OPTIONS),
}
"""By name: the query, whether its JVM uses a class archive, and further JVM options."""


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 2_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/cold_start.json"),
) -> None:
    """Measure, print two tables, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    runs: Runs = defaultdict(list)
    with start_bench() as bench:
        topic = bench.broker.create_topic("clicks", PARTITIONS, retention_ms=-1)
        fill(bench.broker.bootstrap_servers, topic, rows, PARTITIONS, rate=max(1, rows // SECONDS))
        archive = bench.folder / "classes.jsa"
        subprocess.run(
            [sys.executable, "-m", "tidegate", "class-archive", "--to", str(archive)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for number in range(rounds):
            for name in names:
                results = _run_contestant(bench, name, topic, archive)
                runs[name].append(results)
                summary = (
                    f"{results['session']:5.1f} s session, {results['seconds_0']:5.1f} s first run"
                )
                bench.console.print(f"  round {number + 1}  {name:34} {summary}")
        bench.console.print(_jvm_times(runs))
        report(bench.console, _times(runs), output, {"rows": rows, "runs": runs})


def _run_contestant(bench: Bench, name: str, topic: str, archive: Path) -> Run:
    """Run one contestant in its own process and folder."""
    query, archived, options = CONTESTANTS[name]
    java = " ".join(filter(None, [options, cds_options(archive) if archived else ""]))
    folder = Path(tempfile.mkdtemp(prefix="cold-", dir=bench.folder))
    line = [query, bench.broker.bootstrap_servers, topic, str(folder), java]
    return run_module("contestants.cold_process", line, folder, name)


def _times(runs: Runs) -> Table:
    """Return the times up to each stage."""
    starts = ["session s", "first commit s", "CPU s, session and first run"]
    table = Table(
        "contestant", *starts, *[f"run {n + 1} s" for n in range(RUNS)], "CPU s of the last run"
    )
    for name, results in runs.items():
        table.add_row(
            name,
            _sum(results, "session"),
            _sum(results, "session", "first_commit_0"),
            _sum(results, "session_cpu", "cpu_0"),
            *[_sum(results, f"seconds_{number}") for number in range(RUNS)],
            _sum(results, f"cpu_{RUNS - 1}"),
        )
    return table


def _jvm_times(runs: Runs) -> Table:
    """Return the JVM times up to the end of the first run."""
    names = [COMPILING, LOADING, GENERATING, CLASSES, SHARED]
    table = Table("contestant", *names, title="JVM up to the end of the first run")
    for name, results in runs.items():
        table.add_row(name, *[_sum(results, f"session_{each}", f"{each}_0") for each in names])
    return table


def _sum(results: Sequence[Run], *keys: str) -> str:
    """Return the median over the rounds of the sum of several measurements."""
    number = statistics.median(sum(run[key] for key in keys) for run in results)
    return f"{number:,.1f}"


if __name__ == "__main__":
    typer.run(main)
