"""Measure alarms as a batch, by the number of keys, beside the same comparison by hand.

python -m benchmarks.alarms [--rows 500000]

Hours of views, of which a tenth is missing, are compared with the mean of the six hours before
them. By hand that is a window function, which must find as many alarms, of the same values; it
tells the value and the mean alone. "weeks" compares with the median of the same hour of four weeks
before, which a window function cannot say. What is measured ran once before, on a tenth of the
hours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.patterns import Deviation, Past, deviations

from .by_keys import Found, program, timed

KEYS = (100, 10_000)
HOURS, LEAST, LIMIT = 6, 3, 100
RULES = {
    "alarms": Deviation(
        "views", Past(HOURS), baseline="mean", direction="above", absolute=LIMIT, at_least=LEAST
    ),
    "weeks": Deviation("views", Past(4, every="1 week"), direction="above", absolute=LIMIT),
}


def main(
    rows: Annotated[int, typer.Option(help="How many hours, of all keys together.")] = 500_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/alarms.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    program(measured, rows, output, title="Alarms", what="alarms")


def measured(spark: SparkSession, rows: int, folder: Path) -> list[Found]:
    """Compare so many hours of each number of keys, in each way."""
    runs = []
    for keys in KEYS:
        place = str(folder / str(keys))
        made(spark, rows, keys).write.parquet(place)
        hours = spark.read.parquet(place)
        asked = (F.count(F.lit(1)), F.sum(F.col("value").cast("bigint")))
        ways = {"by hand": by_hand(hours)} | {
            name: deviations(hours, "1 hour", by="key", rules={name: rule})
            for name, rule in RULES.items()
        }
        found = {name: timed(name, keys, rows, alarms.agg(*asked)) for name, alarms in ways.items()}
        if found["by hand"][1] != found["alarms"][1]:
            raise SystemExit(f"the query by hand found other alarms: {found}")
        runs += [run for run, _ in found.values()]
    return runs


def made(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return hours of views, some of which have many."""
    start = F.timestamp_seconds(F.floor(F.col("id") / keys) * 3_600 + F.lit(1_767_225_600))
    end = F.timestamp_seconds(F.unix_seconds(start) + 3_600)
    drawn = F.pmod(F.xxhash64("id", F.lit("views")), F.lit(1_000))
    hours = spark.range(rows).where(F.pmod(F.xxhash64("id"), F.lit(10)) > 0)
    return hours.select(
        F.struct(start.alias("start"), end.alias("end")).alias("window"),
        F.pmod("id", F.lit(keys)).alias("key"),
        F.when(drawn < 10, drawn + 300).otherwise(100 + drawn % 50).alias("views"),
    )


def by_hand(hours: DataFrame) -> DataFrame:
    """Return the hours far above the mean of those before them, by a window function."""
    seconds = F.unix_seconds("window.start")
    before = Window.partitionBy("key").orderBy(seconds).rangeBetween(-HOURS * 3_600, -1)
    mean = F.avg("views").over(before)
    told = hours.withColumns({"mean": mean, "n": F.count("views").over(before)})
    return told.where(
        (F.col("n") >= LEAST) & (F.col("views") - F.col("mean") >= LIMIT)
    ).withColumnRenamed("views", "value")


if __name__ == "__main__":
    typer.run(main)
