"""Measure a table built from a snapshot and its changelog, relative to plain PySpark.

python -m benchmarks.cases.changelogs [--rows 500000]

An eighth of the changes are deletes; the snapshot is taken in the middle of the changelog. The
library applies `latest_changes` to the snapshot and the later changes. In plain PySpark this is a
window function over both, without support for tombstones, truncates and changed keys. Both must
return the same rows. A tenth of the changes is processed first as a warm-up."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.changelogs import drop_covered_by_snapshot, latest_changes, snapshot_as_changes

KEYS = (100, 100_000)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def main(
    rows: Annotated[int, typer.Option(help="Number of changes.")] = 500_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/changelogs.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    program(measure, rows, output, title="Snapshot and changelog", what="rows")


def measure(spark: SparkSession, rows: int, folder: Path) -> list[Measurement]:
    """Build the table for each number of keys, in each way."""
    runs = []
    for keys in KEYS:
        snapshot_position = rows // 2
        log = stored(generate(spark, rows, keys), folder / f"log-{keys}")
        covered = log.withColumn("number", _number()).where(_number() <= snapshot_position)
        table = stored(live_rows(covered), folder / f"table-{keys}")
        aggregates = (F.count(F.lit(1)), F.sum("id"), F.sum("value"))
        results = [
            timed(
                "latest_changes",
                keys,
                rows,
                by_library(table, log, snapshot_position).agg(*aggregates),
            ),
            timed(
                "plain PySpark",
                keys,
                rows,
                plain_pyspark(table, log, snapshot_position).agg(*aggregates),
            ),
        ]
        if results[0][1] != results[1][1]:
            raise SystemExit(f"different tables: {results}")
        runs += [run for run, _ in results]
    return runs


def stored(rows: DataFrame, path: Path) -> DataFrame:
    """Write rows, and read them again."""
    rows.write.parquet(str(path))
    return rows.sparkSession.read.parquet(str(path))


def generate(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return changes in order of position, with random keys."""
    id_ = F.pmod(F.xxhash64("id", F.lit("key")), F.lit(keys)).alias("id")
    deleted = F.pmod(F.xxhash64("id", F.lit("deleted")), F.lit(8)) == 0
    row = F.struct(id_, F.col("id").alias("value"))
    time = F.timestamp_millis(F.col("id") + F.lit(1_767_225_600_000))
    position = F.struct(
        F.lit("log").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        time.alias("written_at"),
        F.lit("server").alias("server"),
        F.array("id").alias("source"),
        time.alias("committed_at"),
    )
    return spark.range(rows).select(
        F.when(deleted, "delete").otherwise("update").alias("op"),
        F.struct(id_).alias("key"),
        F.when(deleted, row).alias("before"),
        F.when(~deleted, row).alias("after"),
        F.lit(None).cast("array<string>").alias("unavailable"),
        position.alias("position"),
        time.alias("event_time"),
    )


def by_library(table: DataFrame, log: DataFrame, snapshot_position: int) -> DataFrame:
    """Return the table by the library."""
    first = snapshot_as_changes(table, key="id", position=[snapshot_position], snapshot_time=AT)
    changes = first.unionByName(drop_covered_by_snapshot(log, position=[snapshot_position]))
    return latest_changes(changes).where("NOT deleted")


def plain_pyspark(table: DataFrame, log: DataFrame, snapshot_position: int) -> DataFrame:
    """Return the table by a window function over both."""
    first = table.select(
        F.lit("update").alias("op"),
        F.struct("id", "value").alias("after"),
        F.lit(snapshot_position).cast("bigint").alias("number"),
        F.struct("id").alias("key"),
    )
    later = log.where(_number() > snapshot_position).select(
        "op", "after", _number().alias("number"), "key"
    )
    return live_rows(first.unionByName(later))


def _number() -> Column:
    return F.col("position.source")[0]


def live_rows(changes: DataFrame) -> DataFrame:
    """Return the row of the latest change of each key, without deletes."""
    by_key = Window.partitionBy("key").orderBy(F.desc("number"))
    last = changes.withColumn("n", F.row_number().over(by_key)).where("n = 1")
    return last.where("op <> 'delete'").select("after.*")


if __name__ == "__main__":
    typer.run(main)
