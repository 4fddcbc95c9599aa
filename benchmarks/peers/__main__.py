"""Measure the library, Spark, Flink and Kafka Streams on one machine.

make bench-peers, or: python -m benchmarks.peers [--rows 4000000] [--rounds 3] [--only NAME]...

Each contestant runs each query in its own process, until two consecutive times agree within 5 %;
the first run is cold, the last is warm. The contestants of a query alternate in each round. The
rows of every run are compared with those that pandas computes from the same topics."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.peers import topics
from benchmarks.peers.answers import QUERIES, normalized
from benchmarks.peers.contestants import AUTO_CDC, contestants
from benchmarks.peers.installing import install
from benchmarks.peers.measuring import measure
from benchmarks.peers.tables import print_tables
from benchmarks.support.harness import (
    Bench,
    Only,
    Output,
    Rounds,
    Runs,
    select_contestants,
    start_bench,
)
from benchmarks.support.warm_up import MAX_RUNS
from bootstrap.machine import SetupError


def main(
    rows: Annotated[
        int, typer.Option(help="Number of clicks, and of changes; half as many impressions.")
    ] = 4_000_000,
    rounds: Rounds = 3,
    runs: Annotated[int, typer.Option(help="Maximum number of runs in a process.")] = MAX_RUNS,
    only: Only = None,
    output: Output = Path("benchmarks/results/peers.json"),
) -> None:
    """Measure, print the tables of the docs, and write JSON."""
    everyone = [*QUERIES, *contestants()]
    names = select_contestants(everyone, only)
    queries = [name for name in QUERIES if name in names] or list(QUERIES)
    who = [name for name in contestants() if name in names] or list(contestants())
    try:
        install(flink="Flink" in who, auto_cdc=AUTO_CDC in who)
    except SetupError as error:
        print(f"peers: {error}", file=sys.stderr)
        raise SystemExit(error.code) from error
    with start_bench() as bench:
        bench.console.print(f"filling the topics: {rows:,} clicks, {rows // 2:,} impressions")
        topics.fill(bench.broker, rows, bench.folder / "tables")
        if "changelog" in queries:
            topics.fill_changes(bench.broker, rows)
        results = run_queries(bench, queries, who, rows=rows, rounds=rounds, runs=runs)
        print_tables(bench.console, results, rows, output)


def run_queries(
    bench: Bench, queries: list[str], who: list[str], *, rows: int, rounds: int, runs: int
) -> dict[str, Runs]:
    """Run each query with alternating contestants, and return the measurements by query."""
    results: dict[str, Runs] = {}
    servers = bench.broker.bootstrap_servers
    for query in queries:
        expected = normalized(QUERIES[query], QUERIES[query].expected(servers))
        measurements: Runs = defaultdict(list)
        for number in range(rounds):
            for name, contestant in contestants().items():
                if name not in who or query in contestant.without:
                    continue
                label = f"{query}-{name.replace(', ', '-').replace(' ', '-')}-{number}"
                one = measure(
                    bench.broker,
                    bench.folder,
                    query,
                    contestant,
                    label=label,
                    expected=expected,
                    runs=runs,
                )
                measurements[name].append(one)
                speeds = [rows / one[key] / 1e3 for key in ("cold", "seconds")]
                cold, warm = (f"{speed:7,.1f}" for speed in speeds)
                summary = f"cold {cold}  warm {warm} thousand/s, {one['runs']:.0f} runs"
                bench.console.print(f"  round {number + 1}  {query:11} {name:18} {summary}")
        results[query] = measurements
    return results


if __name__ == "__main__":
    typer.run(main)
