"""Measure a small batch, and the extra cost of dead letters and late rows.

python -m benchmarks.cases.small_batches [--batches 40] [--rounds 3] [--only NAME]...

Batches have 4,000 clicks, each as long as a window of 1,000 pages, so that each has a commit. About
four records of a batch are unreadable, four are late, both, or neither. All contestants run in one
JVM, in rounds; the first round is a warm-up. Each round has its own topics with later event times,
so that code compiled for one watermark is not reused. The first and the last quarter of the batches
are reported as well: with hundreds of batches they show whether the growth of table logs slows
batches down."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.contestants.window_queries import AGGS
from benchmarks.support.click_topic import SCHEMA, fill
from benchmarks.support.contestant_process import Contestant, RunContext, bench_session, measure
from benchmarks.support.harness import (
    PARTITIONS,
    Bench,
    Only,
    Output,
    Rounds,
    Runs,
    ratio,
    select_contestants,
    start_bench,
)
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay
from tidegate.windows import Tumbling, WindowAggregation

ROWS_A_BATCH = 4_000
SIZE, WATERMARK_DELAY = "10 seconds", "10 seconds"
RATE = 400
"""Clicks a second of event time, so that a batch is as long as a window."""
SHARE = 0.001
BASELINE = "plain PySpark"


def plain_pyspark(spark: SparkSession, context: RunContext) -> None:
    """Run the windows in plain PySpark, in the session of the library."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", context.servers)
        .option("subscribe", context.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
    )
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("click"))
    clicks = parsed.select("click.*").withColumn("event_time", F.timestamp_millis("ts"))
    windows = clicks.withWatermark("event_time", WATERMARK_DELAY).groupBy(
        F.window("event_time", SIZE), "page"
    )
    sums = [F.count(F.lit(1)).alias("views"), F.sum("ms").alias("total_ms")]
    result = windows.agg(*sums, F.avg("ms").alias("mean_ms"))
    writer = result.writeStream.format("delta").option(
        "checkpointLocation", str(context.folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start(str(context.folder / "table")).awaitTermination()


def tidegate_windows(spark: SparkSession, context: RunContext) -> None:
    """Run the job of the library, which stores dead letters and late rows."""
    clicks = Input(
        source=KafkaSource(context.servers, context.topic, max_records_per_batch=ROWS_A_BATCH),
        format=json_format(SCHEMA),
        time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
        watermark_delay=WATERMARK_DELAY,
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"clicks": clicks},
        transform=WindowAggregation(Tumbling(SIZE), by="page", aggs=AGGS),
        sink=Append(str(context.folder / "table")),
        checkpoint=str(context.folder / "checkpoint"),
        dead_letters=str(context.folder / "dead"),
        late_rows=str(context.folder / "late"),
    )
    run(job, spark, display=ProgressDisplay())


CONTESTANTS: dict[str, tuple[Contestant, str]] = {
    BASELINE: (plain_pyspark, "clean"),
    "clean": (tidegate_windows, "clean"),
    "unreadable": (tidegate_windows, "unreadable"),
    "late": (tidegate_windows, "late"),
    "unreadable and late": (tidegate_windows, "both"),
}
"""By name: the contestant, and the topic of each round."""

TOPICS = {
    "clean": (0.0, 0.0),
    "unreadable": (SHARE, 0.0),
    "late": (0.0, SHARE),
    "both": (SHARE, SHARE),
}
"""By name: the shares of unreadable and of late records in a topic."""


def main(
    batches: Annotated[int, typer.Option(min=8, help="Number of batches in each topic.")] = 40,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/small_batches.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(CONTESTANTS, only)
    runs: Runs = defaultdict(list)
    with start_bench() as bench:
        spark = bench_session()
        for number in range(rounds + 1):
            _fill(bench, number, batches)
            for name in names:
                contestant, topic = CONTESTANTS[name]
                folder = bench.folder / f"{number}-{name.replace(' ', '-')}"
                results = measure(
                    spark,
                    contestant,
                    RunContext(bench.broker.bootstrap_servers, f"{topic}-{number}", folder),
                )
                results |= _batch_seconds(folder / "table")
                if number:
                    runs[name].append(results)
                summary = f"{results['seconds'] / batches:.3f} s a batch"
                bench.console.print(f"  round {number}  {name:24} {summary}")
        spark.stop()
        _report(bench.console, runs, batches, output)


def _batch_seconds(table: Path) -> dict[str, float]:
    """Return the seconds a batch in the first and the last quarter, by the commits."""
    at = sorted(file.stat().st_mtime for file in (table / "_delta_log").glob("*.json"))
    quarter = max(1, len(at) // 4)
    return {
        "at_first": (at[quarter] - at[0]) / quarter,
        "at_last": (at[-1] - at[-1 - quarter]) / quarter,
    }


def _fill(bench: Bench, number: int, batches: int) -> None:
    rows = batches * ROWS_A_BATCH
    for topic, (unreadable, late) in TOPICS.items():
        name = bench.broker.create_topic(f"{topic}-{number}", PARTITIONS, retention_ms=-1)
        fill(
            bench.broker.bootstrap_servers,
            name,
            rows,
            PARTITIONS,
            seed=number,
            late_share=late,
            unreadable=unreadable,
            rate=RATE,
            first=number * rows,
        )


def _report(console: Console, runs: Runs, batches: int, output: Path) -> None:
    ratios = [f"time / {BASELINE}", f"CPU / {BASELINE}"]
    table = Table("contestant", "s a batch", "first quarter", "last quarter", *ratios, "rows out")
    baseline = runs.get(BASELINE, [])
    for name, results in runs.items():
        seconds = statistics.median(run["seconds"] for run in results) / batches
        ratios = [ratio(results, baseline, key) for key in ("seconds", "cpu")]
        each = [statistics.median(run[part] for run in results) for part in ("at_first", "at_last")]
        times = [f"{time:.3f}" for time in (seconds, *each)]
        table.add_row(name, *times, *ratios, f"{int(results[0]['rows_out']):,}")
    console.print(table)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"batches": batches, "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
