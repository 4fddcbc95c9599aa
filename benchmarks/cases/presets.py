"""Measure the settings of presets, each relative to the defaults.

python -m benchmarks.cases.presets [--rows 1000000] [--rounds 3] [--job NAME]...

Three jobs: sessions of 100,000 users in four batches, a join of two topics, and windows in batches
of 4,000 rows with a commit each. All run in one JVM, in rounds; the first round is a warm-up."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import join_queries
from benchmarks.contestants.window_queries import AGGS
from benchmarks.support import impression_topic as impressions
from benchmarks.support.click_topic import SCHEMA, fill
from benchmarks.support.contestant_process import Contestant, RunContext, bench_session, measure
from benchmarks.support.harness import PARTITIONS as TOPICS_PARTITIONS
from benchmarks.support.harness import Output, Rounds, Runs, ratio, start_bench
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.jvm import with_settings
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.spark.presets import PRESETS, SHUFFLE_PARTITIONS, SNAPSHOT_PARTITIONS
from tidegate.telemetry.console import ProgressDisplay
from tidegate.windows import Session, Tumbling, Window, WindowAggregation

SMALL_BATCH, SMALL_BATCHES = 4_000, 10
RATE = 400
"""Clicks a second of event time, so that a small batch is as long as a window."""
SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "small": dict(PRESETS["small"]),
    "fresh": dict(PRESETS["fresh"]),
    "1 partition": {SHUFFLE_PARTITIONS: "1"},
    "8 partitions": {SHUFFLE_PARTITIONS: "8"},
    "50 snapshot partitions": {SNAPSHOT_PARTITIONS: "50"},
    "files in the checksum": {"spark.databricks.delta.allFilesInCrc.enabled": "true"},
}


def windows(
    spark: SparkSession, context: RunContext, *, window: Window, by: str, rows_a_batch: int
) -> None:
    """Run a job of windows."""
    clicks = Input(
        source=KafkaSource(context.servers, context.topic, max_records_per_batch=rows_a_batch),
        format=json_format(SCHEMA),
        time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
        watermark_delay="10 seconds",
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"clicks": clicks},
        transform=WindowAggregation(window, by=by, aggs=AGGS),
        sink=Append(str(context.folder / "table")),
    )
    run(job, spark, display=ProgressDisplay())


def with_spark_settings(settings: Mapping[str, str], contestant: Contestant) -> Contestant:
    """Return a contestant that runs with these settings."""

    def run_query(spark: SparkSession, context: RunContext) -> None:
        with with_settings(spark, settings):
            contestant(spark, context)

    return run_query


def main(
    rows: Annotated[int, typer.Option(help="Number of clicks of the sessions.")] = 1_000_000,
    rounds: Rounds = 3,
    job: Annotated[list[str] | None, typer.Option(help="Name of a job; repeatable.")] = None,
    output: Output = Path("benchmarks/results/presets.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    small = partial(windows, window=Tumbling("10 seconds"), by="page", rows_a_batch=SMALL_BATCH)
    jobs: dict[str, Contestant] = {
        "sessions": partial(
            windows, window=Session("30 seconds"), by="user", rows_a_batch=rows // 4
        ),
        "join": partial(join_queries.tidegate_join, emit="early"),
        "small": small,
    }
    chosen = {name: each for name, each in jobs.items() if job is None or name in job}
    runs: dict[str, Runs] = {name: defaultdict(list) for name in chosen}
    with start_bench() as bench:
        servers, parts = bench.broker.bootstrap_servers, TOPICS_PARTITIONS
        pair = ("join-impressions", "join-clicks")
        for topic in ("sessions", "small", *pair):
            bench.broker.create_topic(topic, partitions=parts, retention_ms=-1)
        fill(servers, "sessions", rows, parts)
        fill(servers, "small", SMALL_BATCH * SMALL_BATCHES, parts, rate=RATE)
        impressions.fill(servers, pair, rows // 5, parts)
        spark = bench_session()
        for number in range(rounds + 1):
            for topic, contestant in chosen.items():
                for name, settings in SETTINGS.items():
                    folder = bench.folder / f"{number}-{topic}-{name.replace(' ', '-')}"
                    at = RunContext(servers, topic, folder)
                    results = measure(spark, with_spark_settings(settings, contestant), at)
                    if number:
                        runs[topic][name].append(results)
                    bench.console.print(f"  {number}  {topic:9} {name:24} {results}")
        spark.stop()
        _report(bench.console, runs)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "runs": runs}, indent=2) + "\n")


def _report(console: Console, runs: Mapping[str, Runs]) -> None:
    table = Table("job", "settings", "time", "CPU time")
    for topic, results in runs.items():
        baseline = next(iter(results.values()))
        for name, each in results.items():
            table.add_row(topic, name, *(ratio(each, baseline, key) for key in ("seconds", "cpu")))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
