"""Measure how a backfill scales with executors, on a standalone cluster of Spark.

python -m benchmarks.cases.executors [--rows 1000000] [--rounds 1] [--only NAME]...

The cluster runs on this machine, with 1, 2 and 4 workers of one core each; workers beyond the cores
of the machine share them. The driver is a separate process. Each contestant warms up on a quarter
of the messages in the same application. Rows are compared by their hash."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.contestants.backfill_jobs import CONTESTANTS
from benchmarks.support.click_topic import fill
from benchmarks.support.contestant_process import cpu_seconds
from benchmarks.support.harness import (
    LONGEST_SECONDS,
    PARTITIONS,
    Bench,
    Only,
    Output,
    Rounds,
    report,
    select_contestants,
    start_bench,
)
from tests.support.spark_cluster import SparkCluster

WORKERS = (1, 2, 4)
BACKFILLS = [name for name in CONTESTANTS if name.endswith(", backfill")]
RATE = 500
MEMORY = "1g"
_SCRIPT = Path(__file__).parents[1] / "contestants" / "cluster_backfill.py"


@dataclass(frozen=True, kw_only=True)
class ClusterRun:
    """The result of a backfill on a number of executors: medians over the rounds.

    seconds, batch: the run, and the backfill alone.
    cpu: executors and their child processes, including start and warm-up.
    answer: a hash of the rows.
    """

    name: str
    executors: int
    seconds: float
    batch: float
    cpu: float
    rows_out: int
    answer: str


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/executors.json"),
) -> None:
    """Measure, print a table, write JSON, and compare the answers."""
    names = select_contestants(BACKFILLS, only)
    with start_bench() as bench:
        for topic, count in (("warm", max(1, rows // 4)), ("clicks", rows)):
            bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
            fill(bench.broker.bootstrap_servers, topic, count, PARTITIONS, rate=RATE)
        results = [run for workers in WORKERS for run in measure(bench, names, workers, rounds)]
        summary = {"rows": rows, "cores": os.cpu_count(), "runs": [asdict(run) for run in results]}
        report(bench.console, to_table(results, rows), output, summary)
    require_same(results)


def measure(bench: Bench, names: Sequence[str], workers: int, rounds: int) -> list[ClusterRun]:
    """Start a cluster, and measure each contestant on it."""
    results = []
    with SparkCluster.start(workers=workers, cores=1, memory=MEMORY) as cluster:
        for name in names:
            runs = [_run_contestant(bench, cluster, name) for _ in range(rounds)]
            run = _median(name, workers, runs)
            bench.console.print(f"  {name:24} {workers} executors {run.seconds:9.1f} s")
            results.append(run)
    return results


def _run_contestant(bench: Bench, cluster: SparkCluster, name: str) -> Mapping[str, Any]:
    """Submit one contestant, and return its measurements."""
    folder = Path(tempfile.mkdtemp(prefix="executors-", dir=bench.folder))
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "640m",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
    }
    root = Path(__file__).parents[2]
    before = sum(map(cpu_seconds, cluster.pids))
    done = cluster.submit(
        _SCRIPT,
        name,
        bench.broker.bootstrap_servers,
        "warm",
        "clicks",
        str(folder),
        settings=settings,
        cwd=root,
        timeout=LONGEST_SECONDS,
    )
    if done.returncode != 0:
        # The driver logs to standard output, Spark to standard error.
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}\n{done.stdout[-4000:]}")
    results: dict[str, Any] = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    return results | {"cpu": sum(map(cpu_seconds, cluster.pids)) - before}


def _median(name: str, workers: int, runs: Sequence[Mapping[str, Any]]) -> ClusterRun:
    seconds, batch, cpu = (
        statistics.median(float(run[measure]) for run in runs)
        for measure in ("seconds", "batch", "cpu")
    )
    return ClusterRun(
        name=name,
        executors=workers,
        seconds=seconds,
        batch=batch,
        cpu=cpu,
        rows_out=int(runs[0]["rows_out"]),
        answer=str(runs[0]["answer"]),
    )


def require_same(results: Sequence[ClusterRun]) -> None:
    """Raise SystemExit if answers depend on the number of executors."""
    for name in dict.fromkeys(run.name for run in results):
        answers = {(run.rows_out, run.answer) for run in results if run.name == name}
        if len(answers) > 1:
            raise SystemExit(f"{name} returned different rows: {sorted(answers)}")


def to_table(results: Sequence[ClusterRun], rows: int) -> Table:
    """Return the results, with ratios to one executor."""
    first = {run.name: run for run in reversed(results)}
    ratios = ["speed / 1 executor", "batch s", "batch speed / 1 executor"]
    columns = ["executors", "seconds", "thousand/s", *ratios, "CPU s", "rows out"]
    table = Table("contestant", *columns, title="Backfill by executors of one core")
    for run in results:
        table.add_row(
            run.name,
            str(run.executors),
            f"{run.seconds:,.1f}",
            f"{rows / run.seconds / 1e3:,.1f}",
            f"{first[run.name].seconds / run.seconds:.2f}",
            f"{run.batch:,.1f}",
            f"{first[run.name].batch / run.batch:.2f}",
            f"{run.cpu:,.1f}",
            f"{run.rows_out:,}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
