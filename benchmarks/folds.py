"""Measure a fold as a batch, by the number of keys, beside two ways by hand.

python -m benchmarks.folds [--rows 500000]

Events of three types change a balance, the lowest balance so far and a count. "applyInPandas" does
the same in Python, group by group, in a loop over numpy arrays; "aggregates" computes only what
needs no order, the balance and the count, as a GROUP BY does. All three must find the same
balances, the first two the same lowest ones. What is measured ran once before, on a tenth
of the events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.changes import Fold, folded

from .by_keys import Found, program, timed

KEYS = (100, 10_000)


def main(
    rows: Annotated[int, typer.Option(help="How many events.")] = 500_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/folds.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    program(measured, rows, output, title="Folds", what="states")


def measured(spark: SparkSession, rows: int, folder: Path) -> list[Found]:
    """Fold so many events of each number of keys, in each way."""
    runs = []
    for keys in KEYS:
        place = str(folder / str(keys))
        made(spark, rows, keys).write.parquet(place)
        events = spark.read.parquet(place)
        own = [_timed(name, keys, rows, way(events)) for name, way in WAYS.items()]
        if len({run["balance"] for run in own}) > 1 or own[0]["lowest"] != own[1]["lowest"]:
            raise SystemExit(f"the ways found other states: {own}")
        runs += own
    return runs


def made(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return events in the order of their offsets, and in no order of their keys."""
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
    """Return the states by the declared fold."""
    return folded(
        events,
        Fold(
            key="key",
            kind="type",
            initial={"balance": (0, "BIGINT"), "lowest": (0, "BIGINT")},
            on={
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
    """Return the states by a loop in Python over each group."""

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
        found = (ordered["key"].iloc[0], balance, lowest, len(ordered))
        return pd.DataFrame([found], columns=["key", "balance", "lowest", "events"])

    chosen = events.select("key", "type", "amount", "offset")
    shape = "key BIGINT, balance BIGINT, lowest BIGINT, events BIGINT"
    return chosen.groupBy("key").applyInPandas(fold, shape)


def by_aggregates(events: DataFrame) -> DataFrame:
    """Return what needs no order."""
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


def _timed(name: str, keys: int, rows: int, frame: DataFrame) -> Found:
    """Return how long it takes to find all states, and their sums."""
    lowest = F.sum("lowest") if "lowest" in frame.columns else F.lit(0)
    asked = frame.agg(F.count(F.lit(1)), F.sum("balance"), lowest)
    run, row = timed(name, keys, rows, asked)
    return {**run, "balance": row[1], "lowest": row[2]}


if __name__ == "__main__":
    typer.run(main)
