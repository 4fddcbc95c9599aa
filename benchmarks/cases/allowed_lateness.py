"""Measure the cost of allowed lateness, and of a watermark for each partition.

python -m benchmarks.cases.allowed_lateness [--rows 4000000] [--rounds 1] [--share 0.01]...

Each share of late rows, 20 to 320 seconds late, has its own topic; the watermark delay is 10
seconds. "final" writes late rows to a side table; "corrected" updates closed windows and logs each
version. All partitions are read at the same speed, so a watermark for each partition has its cost
but no benefit. Each contestant warms up on a quarter of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.allowed_lateness_jobs import CONTESTANTS
from benchmarks.support.click_topic import fill
from benchmarks.support.harness import (
    PARTITIONS,
    Output,
    Rounds,
    Runs,
    comparison_table,
    report,
    start_bench,
)

BASELINE = "final"
SHARES = (0.0, 0.01, 0.1)


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in each topic.")] = 4_000_000,
    rounds: Rounds = 1,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of late rows; repeatable.")
    ] = None,
    output: Output = Path("benchmarks/results/allowed_lateness.json"),
) -> None:
    """Measure, print a table of ratios for each share, and write JSON."""
    shares = share or SHARES
    results: dict[float, Runs] = {}
    with start_bench() as bench:
        for each in shares:
            topics = (f"warm-{each:g}", f"large-{each:g}")
            for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
                bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                fill(bench.broker.bootstrap_servers, topic, count, PARTITIONS, late_share=each)
            # The cost of partition watermarks does not depend on late rows: measured once.
            names = [
                name
                for name in CONTESTANTS
                if name != "partition watermarks" or each == min(shares)
            ]
            results[each] = bench.run_rounds(
                "contestants.allowed_lateness_jobs", names, topics=topics, rounds=rounds, rows=rows
            )
            comparison = comparison_table(
                results[each],
                rows,
                dict.fromkeys(CONTESTANTS, BASELINE),
                title=f"{each:.0%} late rows",
            )
            report(bench.console, comparison, output, {"messages": rows, "runs": results})


if __name__ == "__main__":
    typer.run(main)
