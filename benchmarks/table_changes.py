"""Measure the net changes of a Delta table, by the number of its keys, beside the same by hand.

python -m benchmarks.table_changes [--rows 500000]

A table records its changes while four commits write so many rows anew, a tenth of them with the
value that they had. `net_changes` tells what the four made of each key. By hand that is two window
functions over the same feed. Both must tell the same changes. What is measured ran once before, on
a tenth of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.sources import net_changes

from .by_keys import Found, program, timed

KEYS = (10_000, 1_000_000)
COMMITS = 4


def main(
    rows: Annotated[int, typer.Option(help="How many rows are written anew.")] = 500_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/table_changes.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    program(measured, rows, output, title="A table's net changes", what="changes")


def measured(spark: SparkSession, rows: int, folder: Path) -> list[Found]:
    """Change a table of each number of keys, and tell its changes in each way."""
    runs = []
    for keys in KEYS:
        path = str(folder / f"table-{keys}")
        filled(spark, path, rows, keys)
        asked = (F.count(F.lit(1)), F.sum("before.value"), F.sum("after.value"))
        ways = {
            "net_changes": net_changes(spark, path, 0, COMMITS, key="id"),
            "by hand": by_hand(spark, path),
        }
        found = {name: timed(name, keys, rows, told.agg(*asked)) for name, told in ways.items()}
        if found["net_changes"][1] != found["by hand"][1]:
            raise SystemExit(f"the ways told other changes: {found}")
        runs += [run for run, _ in found.values()]
    return runs


def filled(spark: SparkSession, path: str, rows: int, keys: int) -> None:
    """Make a table that records its changes, and merge rows into it, commit by commit."""
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


def by_hand(spark: SparkSession, path: str) -> DataFrame:
    """Return the first and the last row of each key in the feed, where these differ."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", 1).option("endingVersion", COMMITS).load(path)
    row = F.struct("id", "value")
    is_new = F.col("_change_type") == "update_postimage"
    by_key = Window.partitionBy("id").orderBy("_commit_version", is_new)
    whole = by_key.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    told = feed.select(
        F.first(row).over(whole).alias("before"),
        F.last(row).over(whole).alias("after"),
        F.row_number().over(by_key).alias("n"),
    )
    return told.where("n = 1 AND before.value <> after.value")


if __name__ == "__main__":
    typer.run(main)
