"""Measure sequences as a batch: by the number of keys, by the steps of a pattern, and by hand.

python -m benchmarks.sequences [--rows 4000000]

Events of eight kinds come at random, ten thousand a second. "abandoned" looks for a first kind
that a second does not follow within ten seconds, to next; by hand it is a window function over the
same rows, which must count as many. Chains are so many kinds, one after the other, within a minute,
past the last; "loop" repeats a kind between two others, "compared" wants each value above the one
before. What is measured ran once before, on a tenth of the events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.patterns import Pattern, compare, match_sequence, not_, of, sequence, step
from tidegate.patterns._search.matching import Skip

from .by_keys import Found, program, timed

KINDS, EVENTS_A_SECOND = 8, 10_000
KEYS = (100, 10_000, 1_000_000)
CHAINS = (2, 4, 8)
ABANDONED_SECONDS = 10


def main(
    rows: Annotated[int, typer.Option(help="How many events.")] = 4_000_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/sequences.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    program(measured, rows, output, title="Sequences", what="found")


def measured(spark: SparkSession, rows: int, folder: Path) -> list[Found]:
    """Look for each pattern among so many events of each number of keys."""
    runs = []
    for keys in KEYS:
        place = str(folder / str(keys))
        made(spark, rows, keys).write.parquet(place)
        events = spark.read.parquet(place)
        runs.append(_timed("abandoned by hand", keys, rows, by_hand(events)))
        for name, (pattern, skip) in patterns().items():
            found = match_sequence(events, pattern, by="key", skip=skip)
            runs.append(_timed(name, keys, rows, found))
    counted = {(run["keys"], run["name"]): run["found"] for run in runs}
    for keys in KEYS:
        if counted[keys, "abandoned"] != counted[keys, "abandoned by hand"]:
            raise SystemExit(f"the query by hand found other rows: {counted}")
    return runs


def made(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return events in no order of their keys."""
    micros = F.col("id") * F.lit(1_000_000 // EVENTS_A_SECOND)
    return spark.range(rows).select(
        F.timestamp_micros(micros + F.lit(1_767_225_600_000_000)).alias("event_time"),
        F.pmod(F.xxhash64("id", F.lit("key")), F.lit(keys)).alias("key"),
        F.pmod(F.xxhash64("id", F.lit("kind")), F.lit(KINDS)).cast("int").alias("kind"),
        F.pmod(F.xxhash64("id", F.lit("value")), F.lit(100)).cast("int").alias("value"),
    )


def patterns() -> dict[str, tuple[Pattern, Skip]]:
    """Return what is looked for, by name."""
    kinds = [step(f"kind_{kind}", f"kind = {kind}") for kind in range(KINDS)]
    found: dict[str, tuple[Pattern, Skip]] = {
        "abandoned": (
            sequence(kinds[0], not_("kind = 1"), within=f"{ABANDONED_SECONDS} seconds"),
            "to_next",
        )
    }
    for steps in CHAINS:
        chain = sequence(*kinds[:steps], within="1 minute")
        found[f"chain of {steps}"] = (chain, "past_last")
    loop = sequence(
        kinds[0], step("more", "kind = 1", times=(1, None)), kinds[2], within="1 minute"
    )
    above = compare("value", ">", of().last("value"))
    rising = [step(f"step_{number}", "kind < 4", above) for number in range(3)]
    found["loop"] = (loop, "past_last")
    found["compared"] = (sequence(kinds[0], *rising, within="1 minute"), "past_last")
    return found


def by_hand(events: DataFrame) -> DataFrame:
    """Return the first kind where the second does not follow, by a window function."""
    micros = F.unix_micros("event_time")
    after = Window.partitionBy("key").orderBy(micros).rangeBetween(0, ABANDONED_SECONDS * 1_000_000)
    ended = F.max(F.col("kind") == 1).over(after)
    return events.where("kind < 2").withColumn("ended", ended).where("kind = 0 and not ended")


def _timed(name: str, keys: int, rows: int, frame: DataFrame) -> Found:
    """Return how long it takes to find all rows, and how many these are."""
    last = F.max("event_time" if "hand" in name else "ended")
    return timed(name, keys, rows, frame.agg(F.count(F.lit(1)), last))[0]


if __name__ == "__main__":
    typer.run(main)
