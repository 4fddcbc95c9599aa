"""Measure the cost of lateness that depends only on the log, for each kind of window.

python -m benchmarks.cases.log_lateness [--rows 2000000] [--rounds 3] [--share 0] [--only NAME]...

The comparison is with a global watermark and with partition watermarks, as a stream and with a
backfill. A share of the clicks is 20 to 320 seconds late. All partitions are read at the same
speed, so a global watermark makes few more rows late."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.log_lateness_jobs import BASELINES, CONTESTANTS
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


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 2_000_000,
    rounds: Rounds = 3,
    share: Annotated[float, typer.Option(help="Share of late rows.")] = 0.0,
    only: Only = None,
    output: Output = Path("benchmarks/results/log_lateness.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    with start_bench() as bench:
        topics = ("warm", "clicks")
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
            fill(bench.broker.bootstrap_servers, topic, count, PARTITIONS, late_share=share)
        runs = bench.run_rounds(
            "contestants.log_lateness_jobs", names, topics=topics, rounds=rounds, rows=rows
        )
        comparison = comparison_table(
            runs, rows, BASELINES, title=f"Log watermarks, {share:.0%} late rows"
        )
        report(bench.console, comparison, output, {"messages": rows, "share": share, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
