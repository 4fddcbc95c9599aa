"""Measure what corrections of closed windows cost, and a watermark for each partition.

python -m benchmarks.corrections [--rows 4000000] [--rounds 1] [--share 0 --share 0.01 --share 0.1]

A topic for each share of stragglers, which come 20 to 320 seconds late; the lateness is 10 seconds.
"final" keeps what is late in a table; "corrected" takes it into the closed windows, and logs each
answer. Partitions are read at one speed, so that a watermark for each costs what it costs, and
saves nothing. Each contestant is warmed up on a quarter of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .harness import PARTITIONS, Output, Rounds, Runs, arena, report, table
from .late_contestants import LATE
from .topic import fill

RIVAL = "final"
SHARES = (0.0, 0.01, 0.1)


def main(
    rows: Annotated[int, typer.Option(help="Messages in each topic.")] = 4_000_000,
    rounds: Rounds = 1,
    share: Annotated[
        list[float] | None, typer.Option(help="The share of stragglers; several times for several.")
    ] = None,
    output: Output = Path("benchmarks/results/corrections.json"),
) -> None:
    """Measure, print a table of ratios for each share, and keep the figures as JSON."""
    shares = share or SHARES
    found: dict[float, Runs] = {}
    with arena() as place:
        for each in shares:
            topics = (f"warm-{each:g}", f"large-{each:g}")
            for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
                place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                fill(place.broker.servers, topic, count, PARTITIONS, stragglers=each)
            # A watermark for each partition has nothing to do with stragglers: measured once.
            names = [name for name in LATE if name != "watermark each" or each == min(shares)]
            found[each] = place.race(
                "late_contestants", names, topics=topics, rounds=rounds, rows=rows
            )
            made = table(
                found[each], rows, dict.fromkeys(LATE, RIVAL), title=f"{each:.0%} stragglers"
            )
            report(place.console, made, output, {"messages": rows, "runs": found})


if __name__ == "__main__":
    typer.run(main)
