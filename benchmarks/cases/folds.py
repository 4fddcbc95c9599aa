"""Measure a fold on a batch, by the number of keys, relative to two other ways.

python -m benchmarks.cases.folds [--rows 500000]

Events of three types change a balance, the lowest balance and a count. "applyInPandas" loops over
numpy arrays, group by group. "aggregates" computes only the balance and the count, which need no
order, by a GROUP BY. All must find the same balances, and the first two the same lowest balances.
A tenth of the events is processed first as a warm-up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.changelogs import Fold, fold_events

KEYS = (100, 10_000)


def main(
    rows: Annotated[int, typer.Option(help="Number of events.")] = 500_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/folds.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    program(measure, rows, output, title="Folds", what="states")


def measure(spark: SparkSession, rows: int, folder: Path) -> list[Measurement]:
    """Fold events for each number of keys, in each way."""
    runs = []
    for keys in KEYS:
        path = str(folder / str(keys))
        generate(spark, rows, keys).write.parquet(path)
        events = spark.read.parquet(path)
        measurements = [_timed(name, keys, rows, way(events)) for name, way in WAYS.items()]
        if (
            len({run["balance"] for run in measurements}) > 1
            or measurements[0]["lowest"] != measurements[1]["lowest"]
        ):
            raise SystemExit(f"different states: {measurements}")
        runs += measurements
    return runs


def generate(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return events in order of offset, with random keys."""
    kinds = F.array(*map(F.lit, ("deposited", "withdrawn", "renamed")))
    return spark.range(rows).select(
        F.pmod(F.xxhash64("id", F.lit("key")), F.lit(keys)).alias("key"),
        kinds[F.pmod(F.xxhash64("id"), F.lit(3)).cast("int")].alias("type"),
        F.pmod(F.xxhash64("id", F.lit("amount")), F.lit(1_000)).alias("amount"),
        F.timestamp_millis(F.col("id") + F.lit(1_767_225_600_000)).alias("event_time"),
        F.lit("events").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
    )


def by_fold(events: DataFrame) -> DataFrame:
    """Return the states by `fold_events`."""
    return fold_events(
        events,
        Fold(
            key="key",
            type_column="type",
            initial={"balance": (0, "BIGINT"), "lowest": (0, "BIGINT")},
            handlers={
                "deposited": {"balance": "state.balance + event.amount"},
                "withdrawn": {
                    "balance": "state.balance - event.amount",
                    "lowest": "least(state.lowest, state.balance - event.amount)",
                },
                "renamed": {},
            },
        ),
    )


def in_pandas(events: DataFrame) -> DataFrame:
    """Return the states by a Python loop over each group."""

    def fold(group: pd.DataFrame) -> pd.DataFrame:
        ordered = group.sort_values("offset")
        balance = 0
        lowest = 0
        for kind, amount in zip(ordered["type"].array, ordered["amount"].array, strict=True):
            if kind == "deposited":
                balance += amount
            elif kind == "withdrawn":
                balance -= amount
                lowest = min(lowest, balance)
        results = (ordered["key"].iloc[0], balance, lowest, len(ordered))
        return pd.DataFrame([results], columns=["key", "balance", "lowest", "events"])

    chosen = events.select("key", "type", "amount", "offset")
    shape = "key BIGINT, balance BIGINT, lowest BIGINT, events BIGINT"
    return chosen.groupBy("key").applyInPandas(fold, shape)


def by_aggregates(events: DataFrame) -> DataFrame:
    """Return the states that need no order."""
    signed = F.when(F.col("type") == "deposited", F.col("amount"))
    signed = signed.when(F.col("type") == "withdrawn", -F.col("amount")).otherwise(0)
    return events.groupBy("key").agg(
        F.sum(signed).alias("balance"), F.count(F.lit(1)).alias("events")
    )


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "fold": by_fold,
    "applyInPandas": in_pandas,
    "aggregates": by_aggregates,
}


def _timed(name: str, keys: int, rows: int, frame: DataFrame) -> Measurement:
    """Return the measurement and the sums of all states."""
    lowest = F.sum("lowest") if "lowest" in frame.columns else F.lit(0)
    aggregates = frame.agg(F.count(F.lit(1)), F.sum("balance"), lowest)
    run, row = timed(name, keys, rows, aggregates)
    return {**run, "balance": row[1], "lowest": row[2]}


if __name__ == "__main__":
    typer.run(main)
