"""Measure the enrichment of a stream by a table of 100,000 rows beside the same by hand.

python -m benchmarks.stream_table [--rows 4000000] [--rounds 3] [--only NAME]...

By hand are the stream-static join of Spark, and the same with a range of time over a history of
four versions a user; for the changelog there is no such thing, and it stands beside the history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .enrichers import CONTESTANTS, fill_changelog
from .harness import PARTITIONS, Only, Output, Rounds, arena, chosen, report, table
from .topic import fill

RIVALS = {
    "no join": "snapshot by hand",
    "snapshot by hand": "snapshot by hand",
    "snapshot": "snapshot by hand",
    "history by hand": "history by hand",
    "history": "history by hand",
    "changelog": "history by hand",
}


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 4_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/stream_table.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    topics = ("warm", "clicks")
    with arena() as place:
        servers = place.broker.servers
        for topic, count in zip(topics, (max(1, rows // 4), rows), strict=True):
            for name in (topic, f"{topic}-changes"):
                place.broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
            fill(servers, topic, count, PARTITIONS)
            fill_changelog(servers, f"{topic}-changes", count, PARTITIONS)
        runs = place.race("enrichers", names, topics=topics, rounds=rounds, rows=rows)
        made = table(runs, rows, RIVALS, title="A stream and a table", counts=["met"])
        report(place.console, made, output, {"rows": rows, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
