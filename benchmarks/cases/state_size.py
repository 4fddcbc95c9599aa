"""Measure the size of state on disk.

python -m benchmarks.cases.state_size [--rows 200000] [--job NAME]...

Each job reads clicks of 100,000 users and 1,000 pages, and ends with all of them in state. A
rescale then rewrites the complete state; the size is that of the rewritten files, as compressed by
RocksDB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.window_queries import AGGS
from benchmarks.support.click_topic import SCHEMA, fill
from benchmarks.support.contestant_process import bench_session
from benchmarks.support.harness import PARTITIONS, Output, start_bench
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin
from tidegate.operations.rescale import plan_rescale, rescale
from tidegate.sinks import Append
from tidegate.sketches import approx_count_distinct
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay
from tidegate.transform import Transform
from tidegate.windows import Session, Sliding, Tumbling, WindowAggregation

WITHIN = ("0 seconds", "1 hour")
JOBS: Mapping[str, tuple[Transform, int]] = {
    "tumbling by user": (WindowAggregation(Tumbling("1 day"), by="user", aggs=AGGS), 1),
    "distinct by page": (
        WindowAggregation(
            Tumbling("1 day"), by="page", aggs={"users": approx_count_distinct("user")}
        ),
        1,
    ),
    "session by user": (WindowAggregation(Session("1 hour"), by="user", aggs=AGGS), 1),
    "sliding by user": (WindowAggregation(Sliding("1 hour"), by="user", aggs=AGGS), 1),
    "join, early": (IntervalJoin(on="user", within=WITHIN, how="inner"), 2),
    "join, final": (IntervalJoin(on="user", within=WITHIN, how="inner", emit="final"), 2),
}
"""By name: the transform, and its number of topics."""


def main(
    rows: Annotated[int, typer.Option(help="Clicks in each topic.")] = 200_000,
    job: Annotated[list[str] | None, typer.Option(help="Name of a job; repeatable.")] = None,
    output: Output = Path("benchmarks/results/state_size.json"),
) -> None:
    """Measure, print a line for each job, and write JSON."""
    results = {}
    with start_bench() as bench:
        spark = bench_session()
        for number, (name, (transform, inputs)) in enumerate(JOBS.items()):
            if job is not None and name not in job:
                continue
            topics = [f"{number}-{at}" for at in range(inputs)]
            for at, topic in enumerate(topics):
                bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                fill(bench.broker.bootstrap_servers, topic, rows, PARTITIONS, seed=at)
            bench_job = Job(
                name="bench",
                inputs={
                    f"clicks_{at}": click_input(bench.broker.bootstrap_servers, topic)
                    for at, topic in enumerate(topics)
                },
                transform=transform,
                sink=Append(str(bench.folder / str(number) / "table")),
            )
            run(bench_job, spark, display=ProgressDisplay())
            size = rescaled_bytes(spark, bench_job.locations.checkpoint)
            results[name] = {"bytes": size, "an_event": round(size / rows / inputs, 1)}
            bench.console.print(f"  {name:20} {results[name]}")
        spark.stop()
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "count": results}, indent=2) + "\n")


def click_input(servers: str, topic: str) -> Input:
    """Return the input of a topic of clicks."""
    return Input(
        source=KafkaSource(servers, topic),
        format=json_format(SCHEMA),
        time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
        watermark_delay="10 seconds",
        future_tolerance=None,
    )


def rescaled_bytes(spark: SparkSession, checkpoint: str) -> int:
    """Rewrite the state, and return the size of the new files."""
    state = Path(checkpoint, "state")
    before = set(state.rglob("*"))
    rescale(spark, plan_rescale(spark, checkpoint, 3))
    return sum(file.stat().st_size for file in set(state.rglob("*")) - before if file.is_file())


if __name__ == "__main__":
    typer.run(main)
