"""Measure windows and distinct counts from Kafka to Delta beside queries by hand and the floor.

make bench, or: python -m benchmarks [--rows 4000000] [--rounds 3] [--only NAME]...
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .contestants import CONTESTANTS
from .harness import PARTITIONS, Only, Output, Rounds, arena, chosen, report, table
from .topic import fill

RIVAL = "tumbling by hand"


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 4_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/windows.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    with arena() as place:
        servers = place.broker.servers
        for topic in ("warm", "clicks"):
            place.broker.create_topic(topic, partitions=PARTITIONS)
        fill(servers, "warm", max(1, rows // 4), PARTITIONS)
        size = fill(servers, "clicks", rows, PARTITIONS)
        place.console.print(
            f"{rows:,} messages of {size} bytes on {PARTITIONS} partitions, {rounds} rounds"
        )
        topics = ("warm", "clicks")
        runs = place.race("contestants", names, topics=topics, rounds=rounds, rows=rows)
        made = table(runs, rows, dict.fromkeys(CONTESTANTS, RIVAL), title="Kafka to Delta")
        report(place.console, made, output, {"rows": rows, "bytes": size, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
