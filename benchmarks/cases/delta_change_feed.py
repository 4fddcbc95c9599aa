"""Measure the net changes of a Delta table, by the number of keys, relative to plain PySpark.

python -m benchmarks.cases.delta_change_feed [--rows 500000]

Four commits update rows of a table with a change data feed; a tenth of the updates repeats the
value. `net_changes` returns the net change of each key. In plain PySpark these are two window
functions over the feed. Both must return the same changes. A tenth of the rows is processed first
as a warm-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.sources import net_changes

KEYS = (10_000, 1_000_000)
COMMITS = 4


def main(
    rows: Annotated[int, typer.Option(help="Number of updated rows.")] = 500_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/delta_change_feed.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    program(measure, rows, output, title="Net changes of a table", what="changes")


def measure(spark: SparkSession, rows: int, folder: Path) -> list[Measurement]:
    """Update a table for each number of keys, and compute its net changes in each way."""
    runs = []
    for keys in KEYS:
        path = str(folder / f"table-{keys}")
        fill_table(spark, path, rows, keys)
        aggregates = (F.count(F.lit(1)), F.sum("before.value"), F.sum("after.value"))
        ways = {
            "net_changes": net_changes(spark, path, 0, COMMITS, key="id"),
            "plain PySpark": plain_pyspark(spark, path),
        }
        results = {
            name: timed(name, keys, rows, changes.agg(*aggregates))
            for name, changes in ways.items()
        }
        if results["net_changes"][1] != results["plain PySpark"][1]:
            raise SystemExit(f"different changes: {results}")
        runs += [run for run, _ in results.values()]
    return runs


def fill_table(spark: SparkSession, path: str, rows: int, keys: int) -> None:
    """Create a table with a change data feed, and merge rows into it in several commits."""
    table = spark.range(keys).withColumn("value", F.lit(-1).cast("bigint"))
    writer = table.write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.save(path)
    for commit in range(COMMITS):
        drawn = spark.range(commit * rows, (commit + 1) * rows, COMMITS)
        chosen = drawn.select(_drawn("key", keys).alias("id"), _drawn("value", 10).alias("value"))
        merge = (
            DeltaTable.forPath(spark, path)
            .alias("old")
            .merge(chosen.dropDuplicates(["id"]).alias("new"), "old.id = new.id")
        )
        merge.whenMatchedUpdateAll().execute()


def _drawn(what: str, below: int) -> Column:
    return F.pmod(F.xxhash64("id", F.lit(what)), F.lit(below))


def plain_pyspark(spark: SparkSession, path: str) -> DataFrame:
    """Return the first and the last row of each key in the feed, where they differ."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", 1).option("endingVersion", COMMITS).load(path)
    row = F.struct("id", "value")
    is_new = F.col("_change_type") == "update_postimage"
    by_key = Window.partitionBy("id").orderBy("_commit_version", is_new)
    all_rows = by_key.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ends = feed.select(
        F.first(row).over(all_rows).alias("before"),
        F.last(row).over(all_rows).alias("after"),
        F.row_number().over(by_key).alias("n"),
    )
    return ends.where("n = 1 AND before.value <> after.value")


if __name__ == "__main__":
    typer.run(main)
