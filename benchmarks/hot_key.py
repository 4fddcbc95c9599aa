"""Measure what it costs that one key has nine tenths of the rows, beside keys that are even.

python -m benchmarks.hot_key [--rows 1000000] [--rounds 3] [--share 0.9] [--only NAME]...

The partitions are filled evenly in both topics: what differs is the work by key alone. The two runs
of a contestant follow each other in each round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .contestants import CONTESTANTS
from .harness import PARTITIONS, Only, Output, Rounds, Runs, arena, chosen, report, table
from .topic import fill

KEYED = ("tumbling", "session", "sliding", "distinct")
HOT, EVEN = "one hot key", "even keys"


def main(
    rows: Annotated[int, typer.Option(help="Messages in each topic.")] = 1_000_000,
    rounds: Rounds = 3,
    share: Annotated[float, typer.Option(help="The share of rows that one key has.")] = 0.9,
    only: Only = None,
    output: Output = Path("benchmarks/results/hot_key.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only or KEYED)
    found: Runs = {f"{name}, {keys}": [] for name in names for keys in (EVEN, HOT)}
    with arena() as place:
        topics = {EVEN: ("warm-even", "even"), HOT: ("warm-hot", "hot")}
        for keys, (warm, large) in topics.items():
            for topic, count in ((warm, max(1, rows // 4)), (large, rows)):
                place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                hot = share if keys == HOT else 0.0
                fill(place.broker.servers, topic, count, PARTITIONS, hot=hot)
        for _ in range(rounds):
            for name in names:
                for keys, pair in topics.items():
                    runs = place.race("contestants", [name], topics=pair, rounds=1, rows=rows)
                    found[f"{name}, {keys}"] += runs[name]
        rivals = {name: f"{name.partition(',')[0]}, {EVEN}" for name in found}
        made = table(found, rows, rivals, title=f"{share:.0%} of the rows have one key")
        report(place.console, made, output, {"messages": rows, "share": share, "runs": found})


if __name__ == "__main__":
    typer.run(main)
