"""Measure the join of two topics, relative to the join of Spark and to tumbling windows.

python -m benchmarks.cases.stream_stream [--rows 1000000] [--rounds 1] [--only NAME]...

`rows` impressions and for each a click within a minute are joined by id; tumbling windows read a
topic of as many messages as both. Each contestant warms up on a fifth of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.join_queries import JOINS
from benchmarks.support import click_topic as topic
from benchmarks.support import impression_topic as impressions
from benchmarks.support.harness import (
    PARTITIONS,
    Only,
    Output,
    Rounds,
    comparison_table,
    report,
    select_contestants,
    start_bench,
)
from tidegate.testing import Broker

BASELINE = "tumbling"


def main(
    rows: Annotated[int, typer.Option(help="Impressions, and clicks.")] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/stream_stream.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(JOINS, only)
    messages = 2 * rows
    topics = ("warm", "large")
    with start_bench() as bench:
        for name, count in zip(topics, (max(1, rows // 5), rows), strict=True):
            fill_topics(bench.broker, name, count)
        bench.console.print(f"{messages:,} messages on {PARTITIONS} partitions, {rounds} rounds")
        runs = bench.run_rounds(
            "contestants.join_queries",
            names,
            topics=topics,
            rounds=rounds,
            rows=rows,
            messages=messages,
        )
        baselines = dict.fromkeys(JOINS, BASELINE)
        comparison = comparison_table(runs, messages, baselines, title="Two topics", speed=True)
        report(bench.console, comparison, output, {"messages": messages, "runs": runs})


def fill_topics(broker: Broker, name: str, rows: int) -> None:
    """Create the topics of one size."""
    parts = (f"{name}-impressions", f"{name}-clicks")
    for topic_name in (name, *parts):
        broker.create_topic(topic_name, partitions=PARTITIONS)
    topic.fill(broker.bootstrap_servers, name, 2 * rows, PARTITIONS)
    impressions.fill(broker.bootstrap_servers, parts, rows, PARTITIONS)


if __name__ == "__main__":
    typer.run(main)
