"""Measure how large state is on disk.

python -m benchmarks.state [--rows 200000] [--job NAME]...

Each job reads so many clicks, of 100,000 users and 1,000 pages, and ends with all of them in its
state. It is then rescaled, which writes the state anew and whole: the bytes are those of that copy,
compressed as RocksDB has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.rescaling.rescale import rescale
from tidegate.runtime.rescaling.state import planned
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sketches import distinct
from tidegate.sources import KafkaSource, Reading
from tidegate.transform import Transform
from tidegate.windows import Session, Sliding, Tumbling, Windowed

from .contest import started
from .contestants import AGGS
from .harness import PARTITIONS, Output, arena
from .topic import SCHEMA, fill

WITHIN = ("0 seconds", "1 hour")
JOBS: Mapping[str, tuple[Transform, int]] = {
    "tumbling by user": (Windowed(Tumbling("1 day"), by="user", aggs=AGGS), 1),
    "distinct by page": (
        Windowed(Tumbling("1 day"), by="page", aggs={"users": distinct("user")}),
        1,
    ),
    "session by user": (Windowed(Session("1 hour"), by="user", aggs=AGGS), 1),
    "sliding by user": (Windowed(Sliding("1 hour"), by="user", aggs=AGGS), 1),
    "join, early": (IntervalJoin(on="user", within=WITHIN, how="inner"), 2),
    "join, final": (IntervalJoin(on="user", within=WITHIN, how="inner", emission="final"), 2),
}
"""By name: the transform, and how many topics it reads."""


def main(
    rows: Annotated[int, typer.Option(help="Clicks in each topic.")] = 200_000,
    job: Annotated[list[str] | None, typer.Option(help="A job; several times for several.")] = None,
    output: Output = Path("benchmarks/results/state.json"),
) -> None:
    """Measure, print a line for each job, and keep the figures as JSON."""
    found = {}
    with arena() as place:
        spark = started()
        for number, (name, (transform, inputs)) in enumerate(JOBS.items()):
            if job is not None and name not in job:
                continue
            topics = [f"{number}-{at}" for at in range(inputs)]
            for at, topic in enumerate(topics):
                place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
                fill(place.broker.servers, topic, rows, PARTITIONS, seed=at)
            made = Job(
                name="bench",
                inputs={
                    f"clicks_{at}": reading(place.broker.servers, topic)
                    for at, topic in enumerate(topics)
                },
                transform=transform,
                sink=Append(str(place.folder / str(number) / "table")),
            )
            run(made, spark, show=Show())
            size = rescaled_bytes(spark, made.places.checkpoint)
            found[name] = {"bytes": size, "an_event": round(size / rows / inputs, 1)}
            place.console.print(f"  {name:20} {found[name]}")
        spark.stop()
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "found": found}, indent=2) + "\n")


def reading(servers: str, topic: str) -> Input:
    """Return the input of a topic of clicks."""
    made = Reading(
        source=KafkaSource(servers, topic),
        format=json_format(SCHEMA),
        time=instant(F.col("ts"), "milliseconds"),
        lateness="10 seconds",
        future_tolerance=None,
    )
    return Input(made)


def rescaled_bytes(spark: SparkSession, checkpoint: str) -> int:
    """Write the state anew, and return the bytes of what was written."""
    state = Path(checkpoint, "state")
    before = set(state.rglob("*"))
    rescale(spark, planned(spark, checkpoint, 3))
    return sum(file.stat().st_size for file in set(state.rglob("*")) - before if file.is_file())


if __name__ == "__main__":
    typer.run(main)
