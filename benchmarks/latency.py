"""Measure how long after its event a row can be read.

python -m benchmarks.latency [--rate 5000] [--seconds 60] [--rivals] [--only NAME]...

Messages come at an even rate, from a process of their own, and each contestant runs on beside it
with a batch after another. A row's latency is the time from the moment at which it could be told
(for a click or an update its newest message; for a final window the message that closes it; for a
match the later of its two) to the commit that holds it. Flink and Kafka Streams write to a topic:
there it is the moment at which a reader of committed records has the row. The first WARM_SECONDS
do not count, and what is sent at the end is waited for."""

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

from tidegate.testing.process import GuardedProcess

from .contest import Place, started
from .harness import PARTITIONS, Only, Output, Run, arena, chosen
from .latency_contestants import CONTESTANTS, plans
from .live import USERS
from .peers.installing import install
from .peers.live import answers, rivals
from .peers.topics import fill_profiles

WARM_SECONDS = 20.0
"""A stream's first batches are slow: classes are loaded and compiled, and rows have gathered."""
DRAIN_SECONDS = 10.0
_SHARES = (0.5, 0.95, 0.99)


class Contestant(Protocol):
    """Who competes."""

    def told(self, spark: SparkSession, place: Place, seconds: float) -> pd.DataFrame:
        """Run for so many seconds, and return when each row was `known`, and `at` could be read."""


def main(
    rate: Annotated[int, typer.Option(help="Clicks a second.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="How long is measured.")] = 60.0,
    rivals_too: Annotated[
        bool, typer.Option("--rivals", help="Flink and Kafka Streams too; fetched at first.")
    ] = False,
    only: Only = None,
    output: Output = Path("benchmarks/results/latency.json"),
) -> None:
    """Measure, print a table of seconds, and keep the figures as JSON."""
    if rivals_too:
        install(flink=True)
    everyone: dict[str, Contestant] = {**CONTESTANTS, **(rivals() if rivals_too else {})}
    names = chosen(everyone, only)
    runs: dict[str, Run] = {}
    with arena() as place:
        spark = started()
        fill_profiles(place.broker)
        for number, name in enumerate(names):
            topic = f"live-{number}"
            for each in (topic, f"{topic}-impressions", f"{topic}-clicks", answers(topic)):
                place.broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
            here = Place(place.broker.servers, topic, place.folder / topic)
            runs[name] = measured(spark, everyone[name], here, rate, seconds)
            place.console.print(f"  {name:24} {runs[name]['p50']:.2f} s")
        spark.stop()
        _report(place.console, runs, output)


def measured(
    spark: SparkSession,
    contestant: Contestant,
    place: Place,
    rate: int,
    seconds: float,
    *,
    warm: float = WARM_SECONDS,
    drain: float = DRAIN_SECONDS,
) -> Run:
    """Run a contestant beside a sender, and return its latencies in seconds."""
    if not plans(place).exists():
        _make_plans(spark, plans(place))
    sending = warm + seconds
    command = [sys.executable, "-m", "benchmarks.live", place.servers, place.topic, str(rate)]
    process = GuardedProcess(
        [*command, str(sending)], place.folder.with_suffix(".log"), name="live"
    )
    try:
        began = time.time() * 1_000
        rows = contestant.told(spark, place, sending + drain)
    finally:
        process.kill()
    rows = rows[rows["known"] >= began + warm * 1_000]
    if rows.empty:
        raise SystemExit(f"no row came out; the sender's last words:\n{process.tail()}")
    late = (rows["at"] - rows["known"]) / 1_000
    found = {f"p{share * 100:.0f}": float(late.quantile(share)) for share in _SHARES}
    return {**found, "rows": float(len(rows)), "commits": float(rows["at"].nunique())}


def _make_plans(spark: SparkSession, path: Path) -> None:
    user = F.format_string("user-%08d", F.col("id"))
    plan = F.format_string("plan-%d", F.col("id") % 7)
    rows = spark.range(USERS).select(user.alias("user"), plan.alias("plan"))
    rows.write.format("delta").save(str(path))


def _report(console: Console, runs: dict[str, Run], output: Path) -> None:
    shares = [f"p{share * 100:.0f}" for share in _SHARES]
    made = Table("contestant", *(f"{share}, s" for share in shares), "rows", "commits")
    for name, found in runs.items():
        cells = [f"{found[share]:.2f}" for share in shares]
        made.add_row(name, *cells, f"{int(found['rows']):,}", f"{int(found['commits']):,}")
    console.print(made)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
