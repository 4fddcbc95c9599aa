"""Measure a backfill as one batch, relative to the same job as a stream.

python -m benchmarks.cases.backfill [--rows 1000000] [--rounds 1] [--partitions 2] [--only NAME]...

Both produce the same rows. The backfill ends at the latest event time minus the watermark delay,
and a stream reads the rest again, so a log of a long time gains more than a short one. Each
contestant warms up on a quarter of the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.backfill_jobs import BASELINES, CONTESTANTS
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

RATE = 500
"""Events a second, so that the log covers at least half an hour."""


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 1_000_000,
    rounds: Rounds = 1,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = PARTITIONS,
    only: Only = None,
    output: Output = Path("benchmarks/results/backfill.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    topics = ("warm", "clicks")
    with start_bench() as bench:
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            bench.broker.create_topic(topic, partitions=partitions, retention_ms=-1)
            fill(bench.broker.bootstrap_servers, topic, count, partitions, rate=RATE)
        runs = bench.run_rounds(
            "contestants.backfill_jobs", names, topics=topics, rounds=rounds, rows=rows
        )
        comparison = comparison_table(runs, rows, BASELINES, title="Backfill", speed=True)
        report(
            bench.console,
            comparison,
            output,
            {"rows": rows, "partitions": partitions, "runs": runs},
        )


if __name__ == "__main__":
    typer.run(main)
