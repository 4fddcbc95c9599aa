"""Measure a snapshot and its log made into a table, by the number of keys, beside the same by hand.

python -m benchmarks.changes [--rows 500000]

The log has so many changes, an eighth of them deletes; the snapshot was taken in its middle. The
table is what `newest` makes of the snapshot and of the changes after it. By hand that is a window
function over both, which knows no tombstone, no truncate and no changed key. Both must find the
same rows. What is measured ran once before, on a tenth of the changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.changes import after_snapshot, newest, snapshot_of

from .by_keys import Found, program, timed

KEYS = (100, 100_000)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def main(
    rows: Annotated[int, typer.Option(help="How many changes.")] = 500_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/changes.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    program(measured, rows, output, title="A snapshot, then its log", what="rows")


def measured(spark: SparkSession, rows: int, folder: Path) -> list[Found]:
    """Make so many changes of each number of keys a table, in each way."""
    runs = []
    for keys in KEYS:
        seam = rows // 2
        log = stored(made(spark, rows, keys), folder / f"log-{keys}")
        until = log.where(F.col("position")[0] <= seam)
        table = stored(living(until), folder / f"table-{keys}")
        asked = (F.count(F.lit(1)), F.sum("id"), F.sum("value"))
        found = [
            timed("newest", keys, rows, by_newest(table, log, seam).agg(*asked)),
            timed("by hand", keys, rows, by_hand(table, log, seam).agg(*asked)),
        ]
        if found[0][1] != found[1][1]:
            raise SystemExit(f"the ways found other tables: {found}")
        runs += [run for run, _ in found]
    return runs


def stored(rows: DataFrame, place: Path) -> DataFrame:
    """Write rows, and return them as they are read."""
    rows.write.parquet(str(place))
    return rows.sparkSession.read.parquet(str(place))


def made(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return changes in the order of their positions, and in no order of their keys."""
    id_ = F.pmod(F.xxhash64("id", F.lit("key")), F.lit(keys)).alias("id")
    gone = F.pmod(F.xxhash64("id", F.lit("gone")), F.lit(8)) == 0
    row = F.struct(id_, F.col("id").alias("value"))
    place = F.struct(
        F.lit("log").alias("topic"), F.lit(0).alias("partition"), F.col("id").alias("offset")
    )
    return spark.range(rows).select(
        F.when(gone, "delete").otherwise("update").alias("op"),
        F.struct(id_).alias("key"),
        F.when(gone, row).alias("before"),
        F.when(~gone, row).alias("after"),
        F.array("id").alias("position"),
        F.timestamp_millis(F.col("id") + F.lit(1_767_225_600_000)).alias("event_time"),
        place.alias("place"),
    )


def by_newest(table: DataFrame, log: DataFrame, seam: int) -> DataFrame:
    """Return the table by the library."""
    first = snapshot_of(table, key="id", position=[seam], at=AT)
    whole = first.unionByName(after_snapshot(log, position=[seam]))
    return newest(whole).where("NOT deleted")


def by_hand(table: DataFrame, log: DataFrame, seam: int) -> DataFrame:
    """Return the table by a window function over both."""
    first = table.select(
        F.lit("update").alias("op"),
        F.struct("id", "value").alias("after"),
        F.array(F.lit(seam).cast("bigint")).alias("position"),
        F.struct("id").alias("key"),
    )
    later = log.where(F.col("position")[0] > seam).select("op", "after", "position", "key")
    return living(first.unionByName(later))


def living(changes: DataFrame) -> DataFrame:
    """Return the rows after each key's newest change, where that is no delete."""
    by_key = Window.partitionBy("key").orderBy(F.col("position")[0].desc())
    last = changes.withColumn("n", F.row_number().over(by_key)).where("n = 1")
    return last.where("op <> 'delete'").select("after.*")


if __name__ == "__main__":
    typer.run(main)
