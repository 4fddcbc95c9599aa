"""Measure what the settings of presets are worth, each beside the settings as they are.

python -m benchmarks.presets [--rows 1000000] [--rounds 3] [--job NAME]...

Three jobs: sessions of 100,000 users in four batches and a join of two topics, whose state counts,
and windows in batches of 4,000 rows, of which each has a commit. All run in one JVM, in rounds,
after a round that is not counted."""

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

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.jvm import with_settings
from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.presets import PARTITIONS, PRESETS, SNAPSHOT
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.windows import Session, Tumbling, Window, Windowed

from . import impressions, join_contestants
from .contest import Contestant, Place, measured, started
from .contestants import AGGS
from .harness import PARTITIONS as TOPICS_PARTITIONS
from .harness import Output, Rounds, Runs, arena, ratio
from .topic import SCHEMA, fill

SMALL_BATCH, SMALL_BATCHES = 4_000, 10
RATE = 400
"""Clicks a second of event time in the small batches, so that each is as long as a window."""
SETTINGS: dict[str, dict[str, str]] = {
    "as they are": {},
    "small": dict(PRESETS["small"]),
    "fresh": dict(PRESETS["fresh"]),
    "1 partition": {PARTITIONS: "1"},
    "8 partitions": {PARTITIONS: "8"},
    "50 parts of a snapshot": {SNAPSHOT: "50"},
    "files in the check sum": {"spark.databricks.delta.allFilesInCrc.enabled": "true"},
}


def windows(
    spark: SparkSession, place: Place, *, window: Window, by: str, rows_a_batch: int
) -> None:
    """Run windows of clicks."""
    reading = Reading(
        source=KafkaSource(place.servers, place.topic, max_rows=rows_a_batch),
        format=json_format(SCHEMA),
        time=instant(F.col("ts"), "milliseconds"),
        lateness="10 seconds",
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"clicks": Input(reading)},
        transform=Windowed(window, by=by, aggs=AGGS),
        sink=Append(str(place.folder / "table")),
    )
    run(job, spark, show=Show())


def under(settings: Mapping[str, str], contestant: Contestant) -> Contestant:
    """Return a contestant that runs under these settings."""

    def contestant_under(spark: SparkSession, place: Place) -> None:
        with with_settings(spark, settings):
            contestant(spark, place)

    return contestant_under


def main(
    rows: Annotated[int, typer.Option(help="Clicks of the sessions.")] = 1_000_000,
    rounds: Rounds = 3,
    job: Annotated[list[str] | None, typer.Option(help="A job; several times for several.")] = None,
    output: Output = Path("benchmarks/results/presets.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    small = partial(windows, window=Tumbling("10 seconds"), by="page", rows_a_batch=SMALL_BATCH)
    jobs: dict[str, Contestant] = {
        "sessions": partial(
            windows, window=Session("30 seconds"), by="user", rows_a_batch=rows // 4
        ),
        "join": partial(join_contestants.by_tidegate, emission="early"),
        "small": small,
    }
    chosen = {name: each for name, each in jobs.items() if job is None or name in job}
    runs: dict[str, Runs] = {name: defaultdict(list) for name in chosen}
    with arena() as place:
        servers, parts = place.broker.servers, TOPICS_PARTITIONS
        pair = ("join-impressions", "join-clicks")
        for topic in ("sessions", "small", *pair):
            place.broker.create_topic(topic, partitions=parts, retention_ms=-1)
        fill(servers, "sessions", rows, parts)
        fill(servers, "small", SMALL_BATCH * SMALL_BATCHES, parts, rate=RATE)
        impressions.fill(servers, pair, rows // 5, parts)
        spark = started()
        for number in range(rounds + 1):
            for topic, contestant in chosen.items():
                for name, settings in SETTINGS.items():
                    folder = place.folder / f"{number}-{topic}-{name.replace(' ', '-')}"
                    at = Place(servers, topic, folder)
                    found = measured(spark, under(settings, contestant), at)
                    if number:
                        runs[topic][name].append(found)
                    place.console.print(f"  {number}  {topic:9} {name:24} {found}")
        spark.stop()
        _report(place.console, runs)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "runs": runs}, indent=2) + "\n")


def _report(console: Console, runs: Mapping[str, Runs]) -> None:
    made = Table("job", "settings", "time", "CPU time")
    for topic, found in runs.items():
        rival = next(iter(found.values()))
        for name, each in found.items():
            made.add_row(topic, name, *(ratio(each, rival, key) for key in ("seconds", "cpu")))
    console.print(made)


if __name__ == "__main__":
    typer.run(main)
