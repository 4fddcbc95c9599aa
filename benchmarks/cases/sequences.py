"""Measure pattern matching on a batch: by the number of keys, and by the steps of a pattern.

python -m benchmarks.cases.sequences [--rows 4000000]

Events of eight kinds arrive at random, ten thousand a second. "abandoned" matches a first kind that
a second kind does not follow within ten seconds, with skip "to_next"; in plain PySpark it is a
window function, which must return the same count. Chains are kinds in sequence within a minute,
with skip "past_last"; "loop" repeats a kind between two others; "compared" requires each value to
exceed the previous one. A tenth of the events is processed first as a warm-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.patterns import (
    Pattern,
    compare,
    events_of,
    match_sequence,
    not_followed_by,
    sequence,
    step,
)
from tidegate.patterns._search.sequence_matcher import Skip

KINDS, EVENTS_A_SECOND = 8, 10_000
KEYS = (100, 10_000, 1_000_000)
CHAINS = (2, 4, 8)
ABANDONED_SECONDS = 10


def main(
    rows: Annotated[int, typer.Option(help="Number of events.")] = 4_000_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/sequences.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    program(measure, rows, output, title="Sequences", what="matches")


def measure(spark: SparkSession, rows: int, folder: Path) -> list[Measurement]:
    """Match each pattern for each number of keys."""
    runs = []
    for keys in KEYS:
        path = str(folder / str(keys))
        generate(spark, rows, keys).write.parquet(path)
        events = spark.read.parquet(path)
        runs.append(_timed("abandoned (PySpark)", keys, rows, plain_pyspark(events)))
        for name, (pattern, skip) in patterns().items():
            results = match_sequence(events, pattern, by="key", skip=skip)
            runs.append(_timed(name, keys, rows, results))
    counted = {(run["keys"], run["name"]): run["count"] for run in runs}
    for keys in KEYS:
        if counted[keys, "abandoned"] != counted[keys, "abandoned (PySpark)"]:
            raise SystemExit(f"plain PySpark found other rows: {counted}")
    return runs


def generate(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return events with random keys."""
    micros = F.col("id") * F.lit(1_000_000 // EVENTS_A_SECOND)
    return spark.range(rows).select(
        F.timestamp_micros(micros + F.lit(1_767_225_600_000_000)).alias("event_time"),
        F.pmod(F.xxhash64("id", F.lit("key")), F.lit(keys)).alias("key"),
        F.pmod(F.xxhash64("id", F.lit("kind")), F.lit(KINDS)).cast("int").alias("kind"),
        F.pmod(F.xxhash64("id", F.lit("value")), F.lit(100)).cast("int").alias("value"),
    )


def patterns() -> dict[str, tuple[Pattern, Skip]]:
    """Return the patterns and their skip strategies, by name."""
    kinds = [step(f"kind_{kind}", f"kind = {kind}") for kind in range(KINDS)]
    results: dict[str, tuple[Pattern, Skip]] = {
        "abandoned": (
            sequence(kinds[0], not_followed_by("kind = 1"), within=f"{ABANDONED_SECONDS} seconds"),
            "to_next",
        )
    }
    for steps in CHAINS:
        chain = sequence(*kinds[:steps], within="1 minute")
        results[f"chain of {steps}"] = (chain, "past_last")
    loop = sequence(
        kinds[0], step("more", "kind = 1", times=(1, None)), kinds[2], within="1 minute"
    )
    above = compare("value", ">", events_of().last("value"))
    rising = [step(f"step_{number}", "kind < 4", above) for number in range(3)]
    results["loop"] = (loop, "past_last")
    results["compared"] = (sequence(kinds[0], *rising, within="1 minute"), "past_last")
    return results


def plain_pyspark(events: DataFrame) -> DataFrame:
    """Return the events of the first kind that the second does not follow, by a window function."""
    micros = F.unix_micros("event_time")
    after = Window.partitionBy("key").orderBy(micros).rangeBetween(0, ABANDONED_SECONDS * 1_000_000)
    ended = F.max(F.col("kind") == 1).over(after)
    return events.where("kind < 2").withColumn("ended", ended).where("kind = 0 and not ended")


def _timed(name: str, keys: int, rows: int, frame: DataFrame) -> Measurement:
    """Return the measurement of a query, including its number of rows."""
    last = F.max("event_time" if "PySpark" in name else "ended")
    return timed(name, keys, rows, frame.agg(F.count(F.lit(1)), last))[0]


if __name__ == "__main__":
    typer.run(main)
