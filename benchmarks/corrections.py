"""Measure corrections of closed windows, and a watermark for each partition.

python -m benchmarks.corrections [--rows 4000000] [--rounds 1] [--share 0 --share 0.01 --share 0.1]

A topic for each share of stragglers, which come 20 to 320 seconds late; the lateness is 10 seconds.
"final" keeps what is late in a table; "corrected" takes it into the closed windows, and logs each
answer. Partitions are read at one speed, so that a watermark for each costs what it costs, and
saves nothing. Each contestant runs in a process of its own, warmed up on a quarter of the messages.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidegate.testing import Broker

from .__main__ import PARTITIONS, Runs, contest, ratio
from .late_contestants import LATE
from .topic import fill

RIVAL = "final"
SHARES = (0.0, 0.01, 0.1)


def main(
    rows: Annotated[int, typer.Option(help="Messages in each topic.")] = 4_000_000,
    rounds: Annotated[int, typer.Option(help="How often each contestant runs.")] = 1,
    share: Annotated[
        list[float] | None, typer.Option(help="The share of stragglers; several times for several.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/corrections.json"
    ),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    console, found = Console(width=120), {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        for each in share or SHARES:
            topics = [f"{size}-{each:g}" for size in ("warm", "large")]
            for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
                broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                fill(broker.servers, topic, count, PARTITIONS, stragglers=each)
            runs: Runs = defaultdict(list)
            for number in range(rounds):
                # A watermark for each partition has nothing to do with stragglers: measured once.
                for name in [
                    name
                    for name in LATE
                    if name != "watermark each" or each == min(share or SHARES)
                ]:
                    place = Path(folder) / f"{number}-{name.replace(' ', '-')}-{each:g}"
                    runs[name].append(
                        contest("late_contestants", name, place, broker.servers, *topics)
                    )
                    told = rows / runs[name][-1]["seconds"] / 1e3
                    console.print(
                        f"  {each:5.1%} stragglers, round {number + 1}  {name:16} {told:9,.1f} "
                        "thousand/s"
                    )
            found[each] = runs
    console.print(shown(found, rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"messages": rows, "runs": found}, indent=2) + "\n", encoding="utf-8"
    )


def shown(found: dict[float, Runs], rows: int) -> Table:
    """Return the medians as a table; times are relative to "final" of the same topic and round."""
    table = Table(
        "stragglers",
        "contestant",
        "thousand/s",
        f"time / {RIVAL}",
        "CPU / the same",
        "peak MiB",
        "rows out",
    )
    for each, runs in found.items():
        for name, measured in runs.items():
            seconds, peak = (
                statistics.median(run[key] for run in measured) for key in ("seconds", "peak_mib")
            )
            ratios = [ratio(measured, runs[RIVAL], key) for key in ("seconds", "cpu")]
            out = f"{int(measured[0]['rows_out']):,}"
            table.add_row(
                f"{each:.0%}", name, f"{rows / seconds / 1e3:,.1f}", *ratios, f"{peak:,.0f}", out
            )
    return table


if __name__ == "__main__":
    typer.run(main)
