"""One query by the library or by hand, several times in one session.

The command line says: QUERY SERVERS LABEL RUNS FOLDER WAY. When each run began and ended goes into
FOLDER/LABEL.runs, in milliseconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.joins import stream_table
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sketches import distinct
from tidegate.sources import KafkaSource, Reading
from tidegate.transform import Stateless
from tidegate.windows import Hopping, Session, Tumbling

from ..contest import Contestant, Place, started
from ..contestants import CONTESTANTS, LATENESS, ROWS_A_BATCH, of_tidegate
from ..enrichers import CONTESTANTS as ENRICHERS
from ..join_contestants import JOINS, by_tidegate
from ..topic import SCHEMA
from .topics import CLICKS


def _enriched(spark: SparkSession, place: Place) -> None:
    """Join with the table as a step without state, which can work off a backlog."""

    def enriched(clicks: DataFrame) -> DataFrame:
        table = spark.read.format("delta").load(str(place.tables / "current"))
        return stream_table(clicks, table, "user", how="left")

    reading = Reading(
        source=KafkaSource(servers=place.servers, topics=[place.topic], max_rows=ROWS_A_BATCH),
        format=json_format(SCHEMA),
        time=instant(F.col("ts"), "milliseconds"),
        lateness=LATENESS,
        future_tolerance=None,
    )
    job = Job(
        name="bench",
        inputs={"clicks": Input(reading)},
        transform=Stateless(enriched, one_to_one=True),
        sink=Append(path=str(place.folder / "table")),
        checkpoint=str(place.folder / "checkpoint"),
        dead=str(place.folder / "dead"),
        backlog=0,
    )
    run(job, spark, show=Show())


WAYS: Mapping[str, Mapping[str, Contestant]] = {
    "stream": {
        **{name: CONTESTANTS[name] for name in ("tumbling", "hopping", "session", "distinct")},
        "join": JOINS["stream_stream, early"],
        "enrichment": ENRICHERS["snapshot"],
    },
    "backlog": {
        "tumbling": of_tidegate(Tumbling("10 seconds"), "page", backlog=0),
        "hopping": of_tidegate(Hopping("60 seconds", "10 seconds"), "page", backlog=0),
        "session": of_tidegate(Session("30 seconds"), "user", backlog=0),
        "distinct": of_tidegate(
            Tumbling("10 seconds"), "page", {"users": distinct("user")}, backlog=0
        ),
        "join": partial(by_tidegate, emission="early", backlog=0),
        "enrichment": _enriched,
    },
    "hand": {
        **{
            name: CONTESTANTS[f"{name} by hand"]
            for name in ("tumbling", "hopping", "session", "distinct")
        },
        "join": JOINS["join by hand"],
        "enrichment": ENRICHERS["snapshot by hand"],
    },
}
"""By the way, and the name of the query."""


def main(query: str, servers: str, label: str, runs: str, folder: str, way: str) -> None:
    """Run a query so often, and note when each run began and ended."""
    spark = started()
    for number in range(int(runs)):
        place = Place(servers, CLICKS, Path(folder) / f"{label}-{number}")
        began = time.time_ns() // 1_000_000
        WAYS[way][query](spark, place)
        ended = time.time_ns() // 1_000_000
        with (Path(folder) / f"{label}.runs").open("a", encoding="utf-8") as marks:
            marks.write(f"{began} {ended}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
