"""Measure the enrichment of a stream with a table of 100,000 rows, relative to plain PySpark.

python -m benchmarks.cases.stream_table [--rows 4000000] [--rounds 3] [--only NAME]...

Plain PySpark uses a stream-static join, and one with a time range over a history of four versions
a user. It has no equivalent of the changelog, which is compared with the history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.contestants.enrichment_queries import CONTESTANTS, fill_changelog
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

BASELINES = {
    "no join": "snapshot (PySpark)",
    "snapshot (PySpark)": "snapshot (PySpark)",
    "snapshot": "snapshot (PySpark)",
    "history (PySpark)": "history (PySpark)",
    "history": "history (PySpark)",
    "changelog": "history (PySpark)",
}


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 4_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/stream_table.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    topics = ("warm", "clicks")
    with start_bench() as bench:
        servers = bench.broker.bootstrap_servers
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            for name in (topic, f"{topic}-changes"):
                bench.broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
            fill(servers, topic, count, PARTITIONS)
            fill_changelog(servers, f"{topic}-changes", count, PARTITIONS)
        runs = bench.run_rounds(
            "contestants.enrichment_queries", names, topics=topics, rounds=rounds, rows=rows
        )
        comparison = comparison_table(
            runs, rows, BASELINES, title="A stream and a table", counts=["matched"]
        )
        report(bench.console, comparison, output, {"rows": rows, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
