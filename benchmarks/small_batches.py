"""Measure what a small batch takes, and what it takes more for rows that are set aside.

python -m benchmarks.small_batches [--batches 40] [--rounds 3] [--only NAME]...

Batches of 4,000 clicks, each as long as a window of 1,000 pages, so that each has a commit; with
about four unreadable records a batch, about four late rows, both, or neither. All contestants run
in one JVM, in rounds, after a round that is not counted. Each round has topics of its own, later
than those before: code that Spark has compiled for one watermark serves no other round. The first
and the last quarter of the batches are told apart too: with some hundred batches they say whether
a batch takes longer as the logs of its tables grow."""

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

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.windows import Tumbling, Windowed

from .contest import Contestant, Place, measured, started
from .contestants import AGGS
from .harness import PARTITIONS, Arena, Only, Output, Rounds, Runs, arena, chosen, ratio
from .topic import SCHEMA, fill

ROWS_A_BATCH = 4_000
SIZE, LATENESS = "10 seconds", "10 seconds"
RATE = 400
"""Clicks a second of event time, so that a batch is as long as a window."""
SHARE = 0.001
RIVAL = "by hand"


def by_hand(spark: SparkSession, place: Place) -> None:
    """Run the windows as one writes them by hand, in the library's session."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", place.servers)
        .option("subscribe", place.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
    )
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("click"))
    clicks = parsed.select("click.*").withColumn("event_time", F.timestamp_millis("ts"))
    windows = clicks.withWatermark("event_time", LATENESS).groupBy(
        F.window("event_time", SIZE), "page"
    )
    sums = [F.count(F.lit(1)).alias("views"), F.sum("ms").alias("total_ms")]
    result = windows.agg(*sums, F.avg("ms").alias("mean_ms"))
    writer = result.writeStream.format("delta").option(
        "checkpointLocation", str(place.folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start(str(place.folder / "table")).awaitTermination()


def of_tidegate(spark: SparkSession, place: Place) -> None:
    """Run the library's job, which keeps what it sets aside."""
    reading = Reading(
        source=KafkaSource(place.servers, place.topic, max_rows=ROWS_A_BATCH),
        format=json_format(SCHEMA),
        time=instant(F.col("ts"), "milliseconds"),
        lateness=LATENESS,
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"clicks": Input(reading)},
        transform=Windowed(Tumbling(SIZE), by="page", aggs=AGGS),
        sink=Append(str(place.folder / "table")),
        checkpoint=str(place.folder / "checkpoint"),
        dead=str(place.folder / "dead"),
        late=str(place.folder / "late"),
    )
    run(job, spark, show=Show())


CONTESTANTS: dict[str, tuple[Contestant, str]] = {
    RIVAL: (by_hand, "clean"),
    "nothing set aside": (of_tidegate, "clean"),
    "unreadable": (of_tidegate, "unreadable"),
    "late": (of_tidegate, "late"),
    "unreadable and late": (of_tidegate, "both"),
}
"""By name: what runs, and the topics that it reads, one a round."""

TOPICS = {
    "clean": (0.0, 0.0),
    "unreadable": (SHARE, 0.0),
    "late": (0.0, SHARE),
    "both": (SHARE, SHARE),
}
"""By name: the shares of a topic's records that cannot be read, and that are late."""


def main(
    batches: Annotated[int, typer.Option(min=8, help="Batches in each topic.")] = 40,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/small_batches.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    runs: Runs = defaultdict(list)
    with arena() as place:
        spark = started()
        for number in range(rounds + 1):
            _fill(place, number, batches)
            for name in names:
                contestant, topic = CONTESTANTS[name]
                folder = place.folder / f"{number}-{name.replace(' ', '-')}"
                found = measured(
                    spark, contestant, Place(place.broker.servers, f"{topic}-{number}", folder)
                )
                found |= _pace(folder / "table")
                if number:
                    runs[name].append(found)
                told = f"{found['seconds'] / batches:.3f} s a batch"
                place.console.print(f"  round {number}  {name:24} {told}")
        spark.stop()
        _report(place.console, runs, batches, output)


def _pace(table: Path) -> dict[str, float]:
    """Return how many seconds a batch took in the first and in the last quarter, by its commits."""
    at = sorted(file.stat().st_mtime for file in (table / "_delta_log").glob("*.json"))
    quarter = max(1, len(at) // 4)
    return {
        "at_first": (at[quarter] - at[0]) / quarter,
        "at_last": (at[-1] - at[-1 - quarter]) / quarter,
    }


def _fill(place: Arena, number: int, batches: int) -> None:
    rows = batches * ROWS_A_BATCH
    for topic, (unreadable, late) in TOPICS.items():
        name = place.broker.create_topic(f"{topic}-{number}", PARTITIONS, retention_ms=-1)
        fill(
            place.broker.servers,
            name,
            rows,
            PARTITIONS,
            seed=number,
            stragglers=late,
            unreadable=unreadable,
            rate=RATE,
            first=number * rows,
        )


def _report(console: Console, runs: Runs, batches: int, output: Path) -> None:
    ratios = [f"time / {RIVAL}", f"CPU / {RIVAL}"]
    made = Table("contestant", "s a batch", "s at first", "s at last", *ratios, "rows out")
    rival = runs.get(RIVAL, [])
    for name, found in runs.items():
        seconds = statistics.median(run["seconds"] for run in found) / batches
        beside = [ratio(found, rival, key) for key in ("seconds", "cpu")]
        each = [statistics.median(run[part] for run in found) for part in ("at_first", "at_last")]
        times = [f"{time:.3f}" for time in (seconds, *each)]
        made.add_row(name, *times, *beside, f"{int(found[0]['rows_out']):,}")
    console.print(made)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"batches": batches, "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
