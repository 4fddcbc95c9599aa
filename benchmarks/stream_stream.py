"""Measure the join of two topics beside Spark's own, and beside tumbling windows.

python -m benchmarks.stream_stream [--rows 1000000] [--rounds 1] [--only NAME]...

So many impressions, and for each a click within a minute, are joined by id; tumbling windows read a
topic of as many messages as both. Each contestant runs in a process of its own, warmed up on a
fifth of the messages."""

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

from . import impressions, topic
from .__main__ import PARTITIONS, Runs, contest, ratio
from .join_contestants import JOINS

RIVAL = "tumbling"


def main(
    rows: Annotated[int, typer.Option(help="Impressions, and clicks.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(help="How often each contestant runs.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="A contestant's name; several times for several.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/stream_stream.json"
    ),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = [name for name in JOINS if not only or name in only]
    unknown = set(only or ()) - set(JOINS)
    if unknown:
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: the contestants are {', '.join(JOINS)}"
        )
    console, runs = Console(), defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        for name, count in (("warm", max(1, rows // 5)), ("large", rows)):
            filled(broker, name, count)
        console.print(f"{2 * rows:,} messages on {PARTITIONS} partitions, {rounds} rounds")
        for number in range(rounds):
            for name in names:
                place = Path(folder) / f"{number}-{name.replace(' ', '-')}"
                found = contest("join_contestants", name, place, broker.servers, "warm", "large")
                runs[name].append(found)
                console.print(
                    f"  round {number + 1}  {name:16} {2 * rows / found['seconds'] / 1e3:9,.1f} "
                    "thousand/s"
                )
    console.print(shown(runs, 2 * rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"messages": 2 * rows, "runs": runs}, indent=2) + "\n", encoding="utf-8"
    )


def filled(broker: Broker, name: str, rows: int) -> None:
    """Make the topics of one size."""
    parts = (f"{name}-impressions", f"{name}-clicks")
    for made in (name, *parts):
        broker.create_topic(made, partitions=PARTITIONS)
    topic.fill(broker.servers, name, 2 * rows, PARTITIONS)
    impressions.fill(broker.servers, parts, rows, PARTITIONS)


def shown(runs: Runs, messages: int) -> Table:
    """Return the medians as a table; speeds and CPU time are relative to the rival of the same
    round."""
    table = Table(
        "contestant",
        "thousand/s",
        f"speed / {RIVAL}",
        f"CPU / {RIVAL}",
        "peak MiB",
        "rows out",
        title="Two topics",
    )
    for name, found in runs.items():
        seconds = statistics.median(run["seconds"] for run in found)
        speed = (
            [{"seconds": 1 / run["seconds"]} for run in found],
            [{"seconds": 1 / run["seconds"]} for run in runs.get(RIVAL, [])],
        )
        ratios = [ratio(*speed, "seconds"), ratio(found, runs.get(RIVAL, []), "cpu")]
        peak = statistics.median(run["peak_mib"] for run in found)
        table.add_row(
            name,
            f"{messages / seconds / 1e3:,.1f}",
            *ratios,
            f"{peak:,.0f}",
            f"{int(found[0]['rows_out']):,}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
