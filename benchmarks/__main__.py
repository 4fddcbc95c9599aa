"""Measure windows and distinct counts from Kafka to Delta, relative to plain PySpark.

make bench, or: python -m benchmarks [--rows 4000000] [--rounds 3] [--only NAME]...
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.window_queries import CONTESTANTS
from benchmarks.support.click_topic import fill
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

BASELINE = "tumbling (PySpark)"


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 4_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/windows.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    with start_bench() as bench:
        servers = bench.broker.bootstrap_servers
        for topic in ("warm", "clicks"):
            bench.broker.create_topic(topic, partitions=PARTITIONS)
        fill(servers, "warm", max(1, rows // 4), PARTITIONS)
        size = fill(servers, "clicks", rows, PARTITIONS)
        bench.console.print(
            f"{rows:,} messages of {size} bytes on {PARTITIONS} partitions, {rounds} rounds"
        )
        topics = ("warm", "clicks")
        runs = bench.run_rounds(
            "contestants.window_queries", names, topics=topics, rounds=rounds, rows=rows
        )
        comparison = comparison_table(
            runs, rows, dict.fromkeys(CONTESTANTS, BASELINE), title="Kafka to Delta"
        )
        report(bench.console, comparison, output, {"rows": rows, "bytes": size, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
