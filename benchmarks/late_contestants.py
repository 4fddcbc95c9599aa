"""Tumbling windows that keep, or take in, their late rows; one of them in its own process."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append, Corrected, Sink
from tidegate.sources import KafkaSource, Reading
from tidegate.windows import Tumbling, Windowed

from .contest import Contestant, Place, compete
from .contestants import AGGS, LATENESS, ROWS_A_BATCH
from .topic import SCHEMA

SIZE, LIMIT = "10 seconds", "10 minutes"


def _input(place: Place, **settings: Any) -> Input:
    reading = Reading(
        source=KafkaSource(servers=place.servers, topics=[place.topic], max_rows=ROWS_A_BATCH),
        format=json_format(SCHEMA),
        time=instant(F.col("ts"), "milliseconds"),
        lateness=LATENESS,
        future_tolerance=None,
    )
    return Input(reading, **settings)


VIEWS = Windowed(Tumbling(SIZE), by="page", aggs=AGGS)


def _run(spark: SparkSession, place: Place, given: Input, sink: Sink, *, corrected: bool) -> None:
    job = Job(
        name="bench",
        inputs={"clicks": given},
        transform=VIEWS,
        sink=sink,
        checkpoint=str(place.folder / "checkpoint"),
        dead=str(place.folder / "dead"),
        late=str(place.folder / "late"),
        corrections=LIMIT if corrected else None,
    )
    run(job, spark, show=Show())


def _final(**settings: Any) -> Contestant:
    def contest(spark: SparkSession, place: Place) -> None:
        sink = Append(path=str(place.folder / "table"))
        _run(spark, place, _input(place, **settings), sink, corrected=False)

    return contest


def _corrected(spark: SparkSession, place: Place) -> None:
    """Correct closed windows by late rows, and log each answer."""
    folder = place.folder
    sink = Corrected(str(folder / "table"), windowed=VIEWS, log=str(folder / "log"))
    _run(spark, place, _input(place), sink, corrected=True)


LATE: dict[str, Contestant] = {
    "final": _final(),
    "watermark each": _final(watermarks="partition"),
    "corrected": _corrected,
}
"""By name. "final" keeps late rows aside; "watermark each" does, with a watermark for each of the
partitions."""


if __name__ == "__main__":
    compete(LATE)
