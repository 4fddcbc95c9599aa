"""Measure how the batch of a backlog scales with executors, on Spark's standalone cluster.

python -m benchmarks.executors [--rows 1000000] [--rounds 1] [--only NAME]...

The cluster runs on this machine, with 1, 2 and 4 workers of one core each: beyond the cores that
the machine has, more executors show what it costs to share them. The driver is a process of its own
beside them. Each contestant is warmed up on a quarter of the messages, in the same application.
All must give the same rows: a hash of these is compared."""

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

from tidegate.testing.cluster import SparkCluster

from .backlog_contestants import CONTESTANTS
from .contest import cpu_seconds
from .harness import (
    LONGEST_SECONDS,
    PARTITIONS,
    Arena,
    Only,
    Output,
    Rounds,
    arena,
    chosen,
    report,
)
from .topic import fill

WORKERS = (1, 2, 4)
BACKLOGS = [name for name in CONTESTANTS if name.endswith(", backlog")]
RATE = 500
MEMORY = "1g"
_SCRIPT = Path(__file__).with_name("executors_contestant.py")


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """What a backlog took on so many executors: medians over the rounds.

    seconds, batch: of the whole run, and of the backlog's batch alone.
    cpu: of the executors and of all that they have started, warm-up and start included.
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
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/executors.json"),
) -> None:
    """Measure, print a table, and keep the figures as JSON; refuse answers that differ."""
    names = chosen(BACKLOGS, only)
    with arena() as place:
        for topic, count in (("warm", max(1, rows // 4)), ("clicks", rows)):
            place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
            fill(place.broker.servers, topic, count, PARTITIONS, rate=RATE)
        found = [run for workers in WORKERS for run in measured(place, names, workers, rounds)]
        told = {"rows": rows, "cores": os.cpu_count(), "runs": [asdict(run) for run in found]}
        report(place.console, shown(found, rows), output, told)
    require_same(found)


def measured(place: Arena, names: Sequence[str], workers: int, rounds: int) -> list[Scaled]:
    """Start a cluster of so many workers, and measure each of the contestants on it."""
    found = []
    with SparkCluster.start(workers=workers, cores=1, memory=MEMORY) as cluster:
        for name in names:
            runs = [_alone(place, cluster, name) for _ in range(rounds)]
            run = _median(name, workers, runs)
            place.console.print(f"  {name:24} {workers} executors {run.seconds:9.1f} s")
            found.append(run)
    return found


def _alone(place: Arena, cluster: SparkCluster, name: str) -> Mapping[str, Any]:
    """Submit one contestant, and return what it measured."""
    folder = Path(tempfile.mkdtemp(prefix="executors-", dir=place.folder))
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "640m",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
    }
    root = Path(__file__).parent.parent
    before = sum(map(cpu_seconds, cluster.pids))
    done = cluster.submit(
        _SCRIPT,
        name,
        place.broker.servers,
        "warm",
        "clicks",
        str(folder),
        settings=settings,
        cwd=root,
        timeout=LONGEST_SECONDS,
    )
    if done.returncode != 0:
        # All that the driver said is on its standard output; Spark's own log is on the other.
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}\n{done.stdout[-4000:]}")
    found: dict[str, Any] = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    return found | {"cpu": sum(map(cpu_seconds, cluster.pids)) - before}


def _median(name: str, workers: int, runs: Sequence[Mapping[str, Any]]) -> Scaled:
    seconds, batch, cpu = (
        statistics.median(float(run[measure]) for run in runs)
        for measure in ("seconds", "batch", "cpu")
    )
    return Scaled(
        name=name,
        executors=workers,
        seconds=seconds,
        batch=batch,
        cpu=cpu,
        rows_out=int(runs[0]["rows_out"]),
        answer=str(runs[0]["answer"]),
    )


def require_same(found: Sequence[Scaled]) -> None:
    """Refuse answers that hang on the number of executors."""
    for name in dict.fromkeys(run.name for run in found):
        answers = {(run.rows_out, run.answer) for run in found if run.name == name}
        if len(answers) > 1:
            raise SystemExit(f"{name} gave different rows by executors: {sorted(answers)}")


def shown(found: Sequence[Scaled], rows: int) -> Table:
    """Return the figures, each beside those of the same contestant on one executor."""
    first = {run.name: run for run in reversed(found)}
    beside = ["speed / 1 executor", "batch s", "its speed / 1 executor"]
    columns = ["executors", "seconds", "thousand/s", *beside, "CPU s", "rows out"]
    made = Table("contestant", *columns, title="A backlog by executors of one core")
    for run in found:
        made.add_row(
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
    return made


if __name__ == "__main__":
    typer.run(main)
