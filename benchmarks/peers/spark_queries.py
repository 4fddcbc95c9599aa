"""One query by the library or by hand, several times in one session.

The command line says: QUERY SERVERS LABEL RUNS WITHIN FOLDER WAY. There are RUNS at the most, and
no more once two in a row agree. When each began and ended goes into FOLDER/LABEL.runs, in
milliseconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidegate.joins import stream_table
from tidegate.patterns import Sequences, compare, of, sequence, step, then
from tidegate.sketches import distinct
from tidegate.transform import Stateless
from tidegate.windows import Hopping, Session, Tumbling

from ..contest import Contestant, Place, started
from ..contestants import CONTESTANTS, of_tidegate, of_transform
from ..enrichers import CONTESTANTS as ENRICHERS
from ..join_contestants import JOINS, by_tidegate
from .answers import SLOW_MS, WITHIN_MS
from .marks import marked
from .topics import CLICKS


def _enriched(spark: SparkSession, place: Place) -> None:
    """Join with the table as a step without state, which can work off a backlog."""

    def enriched(clicks: DataFrame) -> DataFrame:
        table = spark.read.format("delta").load(str(place.tables / "current"))
        return stream_table(clicks, table, "user", how="left")

    of_transform(Stateless(enriched, one_to_one=True), backlog=0)(spark, place)


def _sequence() -> Sequences:
    """Return the search for slow clicks, each with the user's next one that is slower still."""
    slow = step("slow", f"ms > {SLOW_MS}")
    slower = step("slower", compare("ms", ">", of("slow").first("ms")))
    # Flink's WITHIN leaves its last instant out.
    pattern = sequence(slow, then(slower), within=f"{WITHIN_MS - 1} milliseconds")
    measures = {"ms": of("slow").first("ms"), "slower": of("slower").first("ms")}
    return Sequences(pattern, by="user", measures=measures, skip="to_next", order="ms")


WAYS: Mapping[str, Mapping[str, Contestant]] = {
    "stream": {
        **{name: CONTESTANTS[name] for name in ("tumbling", "hopping", "session", "distinct")},
        "join": JOINS["stream_stream, early"],
        "enrichment": ENRICHERS["snapshot"],
        "sequence": of_transform(_sequence()),
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


def main(
    query: str, servers: str, label: str, runs: str, within: str, folder: str, way: str
) -> None:
    """Run a query until it is warm, and note when each run began and ended."""
    # As Flink does, it keeps its state on the heap.
    spark = started(preset="small")

    def run(name: str) -> tuple[int, int]:
        place = Place(servers, CLICKS, Path(folder) / name)
        began = time.time_ns()
        WAYS[way][query](spark, place)
        return began // 1_000_000, time.time_ns() // 1_000_000

    marked(run, label, runs, within, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
