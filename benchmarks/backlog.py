"""Measure a backlog that is worked off as one batch beside the same job as a stream.

python -m benchmarks.backlog [--rows 1000000] [--rounds 1] [--partitions 2] [--only NAME]...

Both end with the same rows. The batch's part ends before the newest event less the lateness, and a
stream reads the rest again, so a log of little event time gains less than a long one. Each
contestant is warmed up on a quarter of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .backlog_contestants import CONTESTANTS, RIVALS
from .harness import PARTITIONS, Only, Output, Rounds, arena, chosen, report, table
from .topic import fill

RATE = 500
"""Events a second: a log of half an hour and more, as backlogs are."""


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 1_000_000,
    rounds: Rounds = 1,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = PARTITIONS,
    only: Only = None,
    output: Output = Path("benchmarks/results/backlog.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    topics = ("warm", "clicks")
    with arena() as place:
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            place.broker.create_topic(topic, partitions=partitions, retention_ms=-1)
            fill(place.broker.servers, topic, count, partitions, rate=RATE)
        runs = place.race("backlog_contestants", names, topics=topics, rounds=rounds, rows=rows)
        made = table(runs, rows, RIVALS, title="a backlog", speed=True)
        report(place.console, made, output, {"rows": rows, "partitions": partitions, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
