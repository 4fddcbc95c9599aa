"""Measure windows and distinct counts beside hand-written queries and the floor.

make bench, or: python -m benchmarks [--rows 4000000] [--rounds 3] [--only NAME]...

Every contestant runs in a process of its own, warmed up, in rounds over the same topic, so that
what else the machine does strikes all alike; the ratios are medians over the rounds."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess, until

from .contestants import CONTESTANTS
from .topic import fill

RIVAL = "tumbling by hand"
PARTITIONS = 4
LONGEST_SECONDS = 1_800.0
Runs = dict[str, list[dict[str, float]]]


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 4_000_000,
    rounds: Annotated[int, typer.Option(help="How often each contestant runs.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(help="A contestant's name; several times for several.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/windows.json"
    ),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = [name for name in CONTESTANTS if not only or name in only]
    unknown = set(only or ()) - set(CONTESTANTS)
    if unknown:
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: the contestants are {', '.join(CONTESTANTS)}"
        )
    console, runs = Console(), defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        broker.create_topic("warm", partitions=PARTITIONS)
        broker.create_topic("clicks", partitions=PARTITIONS)
        fill(broker.servers, "warm", max(1, rows // 4), PARTITIONS)
        size = fill(broker.servers, "clicks", rows, PARTITIONS)
        console.print(
            f"{rows:,} messages of {size} bytes on {PARTITIONS} partitions, {rounds} rounds"
        )
        for number in range(rounds):
            for name in names:
                place = Path(folder) / f"{number}-{name.replace(' ', '-')}"
                found = contest("contest", name, place, broker.servers, "warm", "clicks")
                runs[name].append(found)
                console.print(
                    f"  round {number + 1}  {name:24} {rows / found['seconds'] / 1e3:9,.1f} "
                    "thousand/s"
                )
    console.print(shown(runs, rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"rows": rows, "bytes": size, "runs": runs}, indent=2) + "\n", encoding="utf-8"
    )


def contest(module: str, name: str, folder: Path, *arguments: str) -> dict[str, float]:
    """Run one contestant of a module, in a process and a folder of its own, and give what it
    measured."""
    folder.mkdir()
    command = [sys.executable, "-m", f"benchmarks.{module}", name, *arguments, str(folder)]
    process = GuardedProcess(command, folder / "log", name=name)
    try:
        until(lambda: not process.alive, within=LONGEST_SECONDS, what=f"the end of {name}")
        result = folder / "measured.json"
        if not result.exists():
            raise SystemExit(f"{name} failed:\n{process.tail()}")
        found: dict[str, float] = json.loads(result.read_text(encoding="utf-8"))
        return found
    finally:
        process.kill()


def shown(runs: Runs, rows: int) -> Table:
    """Return the medians as a table; times are relative to the rival of the same round."""
    table = Table(
        "contestant",
        "thousand/s",
        f"time / {RIVAL}",
        "CPU / the same",
        "peak MiB",
        "rows out",
        title="Kafka to Delta",
    )
    for name, found in runs.items():
        seconds = statistics.median(run["seconds"] for run in found)
        ratios = [ratio(found, runs.get(RIVAL, []), key) for key in ("seconds", "cpu")]
        peak = statistics.median(run["peak_mib"] for run in found)
        table.add_row(
            name,
            f"{rows / seconds / 1e3:,.1f}",
            *ratios,
            f"{peak:,.0f}",
            f"{int(found[0]['rows_out']):,}",
        )
    return table


def ratio(found: list[dict[str, float]], rival: list[dict[str, float]], key: str) -> str:
    """Return the median of the ratios by round, and their range."""
    ratios = [run[key] / other[key] for run, other in zip(found, rival, strict=False)]
    return (
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else "-"
    )


if __name__ == "__main__":
    typer.run(main)
