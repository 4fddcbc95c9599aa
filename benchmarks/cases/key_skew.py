"""Measure the cost of a key with nine tenths of the rows, relative to evenly distributed keys.

python -m benchmarks.cases.key_skew [--rows 1000000] [--rounds 3] [--share 0.9] [--only NAME]...

Partitions are filled evenly in both topics: only the work by key differs. In each round the two
runs of a contestant follow each other."""

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
    Runs,
    comparison_table,
    report,
    select_contestants,
    start_bench,
)

KEYED = ("tumbling", "session", "sliding", "distinct")
SKEWED, EVEN = "skewed keys", "even keys"


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in each topic.")] = 1_000_000,
    rounds: Rounds = 3,
    share: Annotated[float, typer.Option(help="Share of rows of the hot key.")] = 0.9,
    only: Only = None,
    output: Output = Path("benchmarks/results/key_skew.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only or KEYED)
    results: Runs = {f"{name}, {keys}": [] for name in names for keys in (EVEN, SKEWED)}
    with start_bench() as bench:
        topics = {EVEN: ("warm-even", "even"), SKEWED: ("warm-hot", "hot")}
        for keys, (warm, large) in topics.items():
            for topic, count in ((warm, max(1, rows // 4)), (large, rows)):
                bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                hot = share if keys == SKEWED else 0.0
                fill(bench.broker.bootstrap_servers, topic, count, PARTITIONS, hot_share=hot)
        for _ in range(rounds):
            for name in names:
                for keys, pair in topics.items():
                    runs = bench.run_rounds(
                        "contestants.window_queries", [name], topics=pair, rounds=1, rows=rows
                    )
                    results[f"{name}, {keys}"] += runs[name]
        baselines = {name: f"{name.partition(',')[0]}, {EVEN}" for name in results}
        comparison = comparison_table(
            results, rows, baselines, title=f"One key has {share:.0%} of the rows"
        )
        report(
            bench.console, comparison, output, {"messages": rows, "share": share, "runs": results}
        )


if __name__ == "__main__":
    typer.run(main)
