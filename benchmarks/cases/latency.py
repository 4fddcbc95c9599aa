"""Measure the latency between an event and its row in the output.

python -m benchmarks.cases.latency [--rate 5000] [--seconds 60] [--peers] [--only NAME]...

A separate process sends messages at a constant rate, while each contestant runs one batch after
another. The latency of a row is the time from its last input (the newest message of a click or an
update, the message that closes a final window, the later of two matching messages) to its commit.
Flink and Kafka Streams write to a topic: there it is the time at which a read_committed consumer
receives the row. The first WARM_SECONDS do not count, and the last messages are awaited."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Protocol

import pandas as pd
import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.contestants.latency_jobs import CONTESTANTS, plans
from benchmarks.peers.installing import install
from benchmarks.peers.live import answers, peer_contestants
from benchmarks.peers.topics import fill_profiles
from benchmarks.support.contestant_process import RunContext, bench_session
from benchmarks.support.harness import (
    PARTITIONS,
    Only,
    Output,
    Run,
    select_contestants,
    start_bench,
)
from benchmarks.support.live_producer import USERS
from tidegate.testing.child_process import GuardedProcess

WARM_SECONDS = 20.0
"""The first batches of a stream are slow: the JVM loads and compiles classes, and rows queue."""
DRAIN_SECONDS = 10.0
_SHARES = (0.5, 0.95, 0.99)


class Contestant(Protocol):
    """A contestant of the latency benchmark."""

    def measure(self, spark: SparkSession, context: RunContext, seconds: float) -> pd.DataFrame:
        """Run for `seconds`; return when each row was `known`, and `at` when it was readable."""


def main(
    rate: Annotated[int, typer.Option(help="Clicks a second.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="Duration of the measurement.")] = 60.0,
    with_peers: Annotated[
        bool,
        typer.Option(
            "--peers", help="Include Flink and Kafka Streams; the first run installs them."
        ),
    ] = False,
    only: Only = None,
    output: Output = Path("benchmarks/results/latency.json"),
) -> None:
    """Measure, print a table of seconds, and write JSON."""
    if with_peers:
        install(flink=True)
    everyone: dict[str, Contestant] = {**CONTESTANTS, **(peer_contestants() if with_peers else {})}
    names = select_contestants(everyone, only)
    runs: dict[str, Run] = {}
    with start_bench() as bench:
        spark = bench_session()
        fill_profiles(bench.broker)
        for number, name in enumerate(names):
            topic = f"live-{number}"
            for each in (topic, f"{topic}-impressions", f"{topic}-clicks", answers(topic)):
                bench.broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
            here = RunContext(bench.broker.bootstrap_servers, topic, bench.folder / topic)
            runs[name] = measure(spark, everyone[name], here, rate, seconds)
            bench.console.print(f"  {name:24} {runs[name]['p50']:.2f} s")
        spark.stop()
        _report(bench.console, runs, output)


def measure(
    spark: SparkSession,
    contestant: Contestant,
    context: RunContext,
    rate: int,
    seconds: float,
    *,
    warm: float = WARM_SECONDS,
    drain: float = DRAIN_SECONDS,
) -> Run:
    """Run a contestant and a producer, and return the latencies in seconds."""
    if not plans(context).exists():
        _make_plans(spark, plans(context))
    sending = warm + seconds
    command = [
        sys.executable,
        "-m",
        "benchmarks.support.live_producer",
        context.servers,
        context.topic,
        str(rate),
    ]
    process = GuardedProcess(
        [*command, str(sending)], context.folder.with_suffix(".log"), name="live"
    )
    try:
        started_at = time.time() * 1_000
        rows = contestant.measure(spark, context, sending + drain)
    finally:
        process.kill()
    rows = rows[rows["known"] >= started_at + warm * 1_000]
    if rows.empty:
        raise SystemExit(
            f"no rows in the output; the log of the producer ends with:\n{process.tail()}"
        )
    late = (rows["at"] - rows["known"]) / 1_000
    results = {f"p{share * 100:.0f}": float(late.quantile(share)) for share in _SHARES}
    return {**results, "rows": float(len(rows)), "commits": float(rows["at"].nunique())}


def _make_plans(spark: SparkSession, path: Path) -> None:
    user = F.format_string("user-%08d", F.col("id"))
    plan = F.format_string("plan-%d", F.col("id") % 7)
    rows = spark.range(USERS).select(user.alias("user"), plan.alias("plan"))
    rows.write.format("delta").save(str(path))


def _report(console: Console, runs: dict[str, Run], output: Path) -> None:
    shares = [f"p{share * 100:.0f}" for share in _SHARES]
    table = Table("contestant", *(f"{share}, s" for share in shares), "rows", "commits")
    for name, results in runs.items():
        cells = [f"{results[share]:.2f}" for share in shares]
        table.add_row(name, *cells, f"{int(results['rows']):,}", f"{int(results['commits']):,}")
    console.print(table)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
