"""Measure what it costs that rows are late by the log alone, for each kind of window.

python -m benchmarks.late_by_log [--rows 2000000] [--rounds 3] [--share 0] [--only NAME]...

Beside one watermark for all partitions, and one for each; as a stream, and with what waits worked
off as a batch. A share of the clicks are stragglers, which come 20 to 320 seconds late. Partitions
are read at one speed, so one watermark for all makes few other rows late."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .harness import PARTITIONS, Only, Output, Rounds, arena, chosen, report, table
from .late_by_log_contestants import BY_LOG, RIVALS
from .topic import fill


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 2_000_000,
    rounds: Rounds = 3,
    share: Annotated[float, typer.Option(help="The share of stragglers.")] = 0.0,
    only: Only = None,
    output: Output = Path("benchmarks/results/late_by_log.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(BY_LOG, only)
    with arena() as place:
        topics = ("warm", "clicks")
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
            fill(place.broker.servers, topic, count, PARTITIONS, stragglers=share)
        runs = place.race("late_by_log_contestants", names, topics=topics, rounds=rounds, rows=rows)
        made = table(runs, rows, RIVALS, title=f"late by the log, {share:.0%} stragglers")
        report(place.console, made, output, {"messages": rows, "share": share, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
