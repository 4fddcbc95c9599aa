"""Measure deviation rules on a batch, by the number of keys, relative to plain PySpark.

python -m benchmarks.cases.alarms [--rows 500000]

Hours of views, with a tenth missing, are compared with the mean of the previous six hours.
In plain PySpark this is a window function, which must find the same alarms. "weeks" compares with
the median of the same hour of the previous four weeks, which a window function cannot express.
A tenth of the hours is processed first as a warm-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.patterns import DeviationRule, PastWindows, deviations

KEYS = (100, 10_000)
HOURS, MIN_SAMPLES, LIMIT = 6, 3, 100
RULES = {
    "alarms": DeviationRule(
        "views",
        PastWindows(HOURS),
        baseline="mean",
        direction="above",
        absolute=LIMIT,
        min_samples=MIN_SAMPLES,
    ),
    "weeks": DeviationRule(
        "views", PastWindows(4, every="1 week"), direction="above", absolute=LIMIT
    ),
}


def main(
    rows: Annotated[int, typer.Option(help="Number of hours over all keys.")] = 500_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/alarms.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    program(measure, rows, output, title="Alarms", what="alarms")


def measure(spark: SparkSession, rows: int, folder: Path) -> list[Measurement]:
    """Compare hours for each number of keys, in each way."""
    runs = []
    for keys in KEYS:
        path = str(folder / str(keys))
        generate(spark, rows, keys).write.parquet(path)
        hours = spark.read.parquet(path)
        aggregates = (F.count(F.lit(1)), F.sum(F.col("value").cast("bigint")))
        ways = {"plain PySpark": plain_pyspark(hours)} | {
            name: deviations(hours, "1 hour", by="key", rules={name: rule})
            for name, rule in RULES.items()
        }
        results = {
            name: timed(name, keys, rows, alarms.agg(*aggregates)) for name, alarms in ways.items()
        }
        if results["plain PySpark"][1] != results["alarms"][1]:
            raise SystemExit(f"plain PySpark found other alarms: {results}")
        runs += [run for run, _ in results.values()]
    return runs


def generate(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return hours of views with some peaks."""
    start = F.timestamp_seconds(F.floor(F.col("id") / keys) * 3_600 + F.lit(1_767_225_600))
    end = F.timestamp_seconds(F.unix_seconds(start) + 3_600)
    drawn = F.pmod(F.xxhash64("id", F.lit("views")), F.lit(1_000))
    hours = spark.range(rows).where(F.pmod(F.xxhash64("id"), F.lit(10)) > 0)
    return hours.select(
        F.struct(start.alias("start"), end.alias("end")).alias("window"),
        F.pmod("id", F.lit(keys)).alias("key"),
        F.when(drawn < 10, drawn + 300).otherwise(100 + drawn % 50).alias("views"),
    )


def plain_pyspark(hours: DataFrame) -> DataFrame:
    """Return the hours far above the mean of the previous hours, by a window function."""
    seconds = F.unix_seconds("window.start")
    before = Window.partitionBy("key").orderBy(seconds).rangeBetween(-HOURS * 3_600, -1)
    mean = F.avg("views").over(before)
    compared = hours.withColumns({"mean": mean, "n": F.count("views").over(before)})
    return compared.where(
        (F.col("n") >= MIN_SAMPLES) & (F.col("views") - F.col("mean") >= LIMIT)
    ).withColumnRenamed("views", "value")


if __name__ == "__main__":
    typer.run(main)
