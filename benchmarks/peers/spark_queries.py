"""One query in the library or in plain PySpark, several times in one session.

Command line: QUERY SERVERS LABEL RUNS TOLERANCE FOLDER WAY. It runs at most RUNS times, until two
consecutive times agree within TOLERANCE. FOLDER/LABEL.runs has the start and end of each run in
milliseconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.changelog_queries import CONTESTANTS as CHANGELOGS
from benchmarks.contestants.enrichment_queries import CONTESTANTS as ENRICHERS
from benchmarks.contestants.join_queries import JOINS, tidegate_join
from benchmarks.contestants.window_queries import CONTESTANTS, tidegate_job, tidegate_windows
from benchmarks.peers.answers import SLOW_MS, WITHIN_MS
from benchmarks.peers.marks import run_and_record
from benchmarks.peers.topics import CLICKS
from benchmarks.support.contestant_process import Contestant, RunContext, bench_session
from tidegate.joins import stream_table
from tidegate.patterns import MatchSequence, compare, events_of, followed_by, sequence, step
from tidegate.sketches import approx_count_distinct
from tidegate.transform import Stateless
from tidegate.windows import Hopping, Session, Tumbling


def _enriched(spark: SparkSession, context: RunContext) -> None:
    """Join with the table as a stateless transform, which supports a backfill."""

    def enriched(clicks: DataFrame) -> DataFrame:
        table = spark.read.format("delta").load(str(context.tables / "current"))
        return stream_table(clicks, table, "user", how="left")

    tidegate_job(Stateless(enriched, one_to_one=True), backfill_threshold=0)(spark, context)


def _sequence() -> MatchSequence:
    """Return the pattern of a slow click and the next slower click of the user."""
    slow = step("slow", f"ms > {SLOW_MS}")
    slower = step("slower", compare("ms", ">", events_of("slow").first("ms")))
    # The WITHIN of Flink is exclusive.
    pattern = sequence(slow, followed_by(slower), within=f"{WITHIN_MS - 1} milliseconds")
    measures = {"ms": events_of("slow").first("ms"), "slower": events_of("slower").first("ms")}
    return MatchSequence(pattern, by="user", measures=measures, skip="to_next", order="ms")


WAYS: Mapping[str, Mapping[str, Contestant]] = {
    "stream": {
        **{name: CONTESTANTS[name] for name in ("tumbling", "hopping", "session", "distinct")},
        "join": JOINS["stream_stream, early"],
        "enrichment": ENRICHERS["snapshot"],
        "sequence": tidegate_job(_sequence()),
        "changelog": CHANGELOGS["changelog"],
    },
    "backfill": {
        "tumbling": tidegate_windows(Tumbling("10 seconds"), "page", backfill_threshold=0),
        "hopping": tidegate_windows(
            Hopping("60 seconds", "10 seconds"), "page", backfill_threshold=0
        ),
        "session": tidegate_windows(Session("30 seconds"), "user", backfill_threshold=0),
        "distinct": tidegate_windows(
            Tumbling("10 seconds"),
            "page",
            {"users": approx_count_distinct("user")},
            backfill_threshold=0,
        ),
        "join": partial(tidegate_join, emit="early", backfill_threshold=0),
        "enrichment": _enriched,
    },
    "pyspark": {
        **{
            name: CONTESTANTS[f"{name} (PySpark)"]
            for name in ("tumbling", "hopping", "session", "distinct")
        },
        "join": JOINS["join (PySpark)"],
        "enrichment": ENRICHERS["snapshot (PySpark)"],
        "changelog": CHANGELOGS["changelog (PySpark)"],
    },
}
"""By way and query."""


def main(
    query: str, servers: str, label: str, runs: str, tolerance: str, folder: str, way: str
) -> None:
    """Run a query until it is warm, and record the start and end of each run."""
    # State is on the heap, as in Flink.
    spark = bench_session(preset="small")

    def run(name: str) -> tuple[int, int]:
        context = RunContext(servers, CLICKS, Path(folder) / name)
        started_at = time.time_ns()
        WAYS[way][query](spark, context)
        return started_at // 1_000_000, time.time_ns() // 1_000_000

    run_and_record(run, label, runs, tolerance, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
