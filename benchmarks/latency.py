"""Measure how long after its event a row can be read in its table.

python -m benchmarks.latency [--rate 5000] [--seconds 60] [--only NAME]...

Messages come at an even rate, from a process of their own, and each contestant runs on beside it
with a batch after another. A row's latency is the time from the moment at which it could be told
(for a click or an update its newest message; for a final window the message that closes it; for a
match the later of its two) to the commit that holds it. The first WARM_SECONDS do not count, and
what is sent at the end is waited for."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import pandas as pd
import pyarrow.parquet as pq
import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from tidegate.testing.process import GuardedProcess

from .contest import Place, started
from .harness import PARTITIONS, Only, Output, Run, arena, chosen
from .latency_contestants import CONTESTANTS, Live, plans
from .live import USERS

WARM_SECONDS = 20.0
"""A stream's first batches are slow: classes are loaded and compiled, and rows have gathered."""
DRAIN_SECONDS = 10.0
_SHARES = (0.5, 0.95, 0.99)


def main(
    rate: Annotated[int, typer.Option(help="Clicks a second.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="How long is measured.")] = 60.0,
    only: Only = None,
    output: Output = Path("benchmarks/results/latency.json"),
) -> None:
    """Measure, print a table of seconds, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    runs: dict[str, Run] = {}
    with arena() as place:
        spark = started()
        for number, name in enumerate(names):
            topic = f"live-{number}"
            for each in (topic, f"{topic}-impressions", f"{topic}-clicks"):
                place.broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
            here = Place(place.broker.servers, topic, place.folder / topic)
            runs[name] = measured(spark, CONTESTANTS[name], here, rate, seconds)
            place.console.print(f"  {name:24} {runs[name]['p50']:.2f} s")
        spark.stop()
        _report(place.console, runs, output)


def measured(
    spark: SparkSession,
    live: Live,
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
        live.run(spark, place, sending + drain)
    finally:
        process.kill()
    rows = committed(place.folder / "table", live)
    rows = rows[rows["known"] >= began + warm * 1_000]
    if rows.empty:
        raise SystemExit(f"no row came out; the sender's last words:\n{process.tail()}")
    late = (rows["at"] - rows["known"]) / 1_000
    found = {f"p{share * 100:.0f}": float(late.quantile(share)) for share in _SHARES}
    return {**found, "rows": float(len(rows)), "commits": float(rows["at"].nunique())}


def committed(table: Path, live: Live) -> pd.DataFrame:
    """Return each row of a Delta table once for each change: when it was known and committed."""
    parts = [pd.DataFrame({"known": [], "at": []})]
    seen: set[str] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        at = commit.stat().st_mtime * 1_000
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" not in action:
                continue
            file = table / unquote(action["add"]["path"])
            rows = pq.read_table(file, columns=list(live.columns)).to_pandas()
            if live.rewritten:
                marks = list(map(str, rows.itertuples(index=False)))
                rows = rows[[mark not in seen for mark in marks]]
                seen.update(marks)
            parts.append(pd.DataFrame({"known": live.known(rows), "at": at}))
    return pd.concat(parts)


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
