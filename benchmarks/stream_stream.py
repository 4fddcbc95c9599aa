"""Measure the join of two topics from Kafka to Delta beside Spark's own and tumbling windows.

python -m benchmarks.stream_stream [--rows 1000000] [--rounds 1] [--only NAME]...

So many impressions, and for each a click within a minute, are joined by id; tumbling windows read a
topic of as many messages as both. Each contestant is warmed up on a fifth of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.testing import Broker

from . import impressions, topic
from .harness import PARTITIONS, Only, Output, Rounds, arena, chosen, report, table
from .join_contestants import JOINS

RIVAL = "tumbling"


def main(
    rows: Annotated[int, typer.Option(help="Impressions, and clicks.")] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/stream_stream.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(JOINS, only)
    messages = 2 * rows
    topics = ("warm", "large")
    with arena() as place:
        for name, count in zip(topics, (max(1, rows // 5), rows), strict=True):
            filled(place.broker, name, count)
        place.console.print(f"{messages:,} messages on {PARTITIONS} partitions, {rounds} rounds")
        runs = place.race(
            "join_contestants", names, topics=topics, rounds=rounds, rows=rows, messages=messages
        )
        rivals = dict.fromkeys(JOINS, RIVAL)
        made = table(runs, messages, rivals, title="Two topics", speed=True)
        report(place.console, made, output, {"messages": messages, "runs": runs})


def filled(broker: Broker, name: str, rows: int) -> None:
    """Make the topics of one size."""
    parts = (f"{name}-impressions", f"{name}-clicks")
    for made in (name, *parts):
        broker.create_topic(made, partitions=PARTITIONS)
    topic.fill(broker.servers, name, 2 * rows, PARTITIONS)
    impressions.fill(broker.servers, parts, rows, PARTITIONS)


if __name__ == "__main__":
    typer.run(main)
