"""Measure three ways to enrich a stream by a table of 100,000 rows, beside the same by hand.

python -m benchmarks.stream_table [--rows 4000000] [--rounds 3] [--only NAME]...

As in `python -m benchmarks`: each contestant in a process of its own, warmed up, in rounds over the
same topic. By hand are the stream-static join of Spark, and the same with a range of time over a
history of four versions a user; for the changelog there is no such thing, and it stands beside the
history."""

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
from .enrichers import CONTESTANTS, MEASURED, WARM, fill_changelog
from .topic import fill

RIVALS = {
    "no join": "snapshot by hand",
    "snapshot": "snapshot by hand",
    "history": "history by hand",
    "changelog": "history by hand",
}


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 4_000_000,
    rounds: Annotated[int, typer.Option(help="How often each contestant runs.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(help="A contestant's name; several times for several.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/stream_table.json"
    ),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = [name for name in CONTESTANTS if not only or name in only]
    console, runs = Console(width=120), defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        for topic, count in ((WARM, max(1, rows // 4)), (MEASURED, rows)):
            for name in (topic, f"{topic}-changes"):
                broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
            fill(broker.servers, topic, count, PARTITIONS)
            fill_changelog(broker.servers, f"{topic}-changes", count, PARTITIONS)
        for number in range(rounds):
            for name in names:
                place = Path(folder) / f"{number}-{name.replace(' ', '-')}"
                found = contest("enrichers", name, place, broker.servers, str(rows))
                runs[name].append(found)
                console.print(
                    f"  round {number + 1}  {name:20} {rows / found['seconds'] / 1e3:9,.1f} "
                    "thousand/s"
                )
    console.print(shown(runs, rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "runs": runs}, indent=2) + "\n", encoding="utf-8")


def shown(runs: Runs, rows: int) -> Table:
    """Return the medians as a table; times are relative to the rival of the same round."""
    table = Table(
        "contestant", "thousand/s", "time / by hand", "CPU / by hand", "peak MiB", "rows out", "met"
    )
    for name, found in runs.items():
        seconds, peak = (
            statistics.median(run[key] for run in found) for key in ("seconds", "peak_mib")
        )
        rival = runs.get(RIVALS.get(name, name), [])
        ratios = [ratio(found, rival, key) for key in ("seconds", "cpu")]
        counts = [f"{int(found[0][key]):,}" for key in ("rows_out", "met")]
        table.add_row(name, f"{rows / seconds / 1e3:,.1f}", *ratios, f"{peak:,.0f}", *counts)
    return table


if __name__ == "__main__":
    typer.run(main)
