"""Measure Bloom filters in a table: their speed, their size, and how often they are wrong.

python -m benchmarks.bloom [--keys 1000000]... [--rate 0.01]

Keys are texts with a long common prefix. A million keys that were never added are asked for, or as
many as were added.
Beside it, over the same keys: dropDuplicates, which finds the different ones, and an exact join
with a table of all keys, which answers the same question as the filter. What is measured ran once
before, on a tenth of the keys. Speeds are told by the clock and by CPU seconds of all processes,
which stand still where the clock does not."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from tidegate.sketches import BloomTable

from .contest import Usage, started

SIZES = (10_000, 1_000_000)
LEAST_ASKED = 1_000_000
STEPS = {"build": "build", "drop": "dropDuplicates", "probe": "probe", "join": "exact join"}
Found = dict[str, float]
Spent = dict[str, float]


def main(
    keys: Annotated[
        list[int] | None, typer.Option(help="How many keys; several times for several.")
    ] = None,
    rate: Annotated[float, typer.Option(help="The false-positive rate that is asked for.")] = 0.01,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/bloom.json"
    ),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    spark = started()
    runs = []
    for count in keys or SIZES:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            measured(spark, max(1, count // 10), rate, Path(folder) / "warm")
            runs.append(measured(spark, count, rate, Path(folder) / "measured"))
    Console(width=140).print(shown(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rate": rate, "runs": runs}, indent=2) + "\n", encoding="utf-8")


def measured(spark: SparkSession, count: int, rate: float, folder: Path) -> Found:
    """Make a filter of so many keys, ask it, and do the same exactly."""
    known = BloomTable(key="key", keys=count, false_positives=rate)
    asked = max(count, LEAST_ASKED)
    inputs = {name: str(folder / name) for name in ("old", "new")}
    texts(spark, 0, count).write.parquet(inputs["old"])
    texts(spark, count, count + asked).write.parquet(inputs["new"])
    old, new = (spark.read.parquet(path) for path in inputs.values())
    blocks, exact = str(folder / "blocks"), str(folder / "exact")

    spent = {
        "build": spending(lambda: known.blocks(old).write.format("delta").save(blocks)),
        "drop": spending(lambda: old.dropDuplicates(["key"]).write.format("delta").save(exact)),
    }
    table, all_keys = (
        spark.read.format("delta").load(blocks),
        spark.read.format("delta").load(exact),
    )
    answers: dict[str, int] = {}

    def ask(name: str, frame: DataFrame) -> Spent:
        return spending(lambda: answers.__setitem__(name, frame.where("known").count()))

    spent["probe"] = ask("new", known.probe(new, table))
    spent["join"] = ask(
        "joined", new.join(all_keys.withColumn("known", F.lit(True)), "key", "left")
    )
    ask("old", known.probe(old, table))
    if answers["old"] != count or answers["joined"]:
        raise SystemExit(
            f"of {count} keys {answers['old']} were found, and the join found {answers['joined']} "
            "new ones"
        )
    speeds = {
        f"{name}_{unit}": (count if name in ("build", "drop") else asked) / value
        for name, figures in spent.items()
        for unit, value in figures.items()
    }
    return {
        "keys": count,
        "asked": asked,
        "false_positives": answers["new"] / asked,
        "filter_bytes": stored(blocks),
        "exact_bytes": stored(exact),
        **speeds,
    }


def texts(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Return different texts of some 50 letters."""
    return spark.range(start, stop).select(
        F.concat(
            F.lit("https://example.org/shop/orders/2026/"),
            F.lpad(F.col("id").cast("string"), 12, "0"),
        ).alias("key")
    )


def spending(work: Callable[[], None]) -> Spent:
    """Return the seconds and the CPU seconds that it takes."""
    with Usage() as usage:
        began = time.monotonic()
        work()
        passed = time.monotonic() - began
    return {"by_clock": passed, "by_cpu": usage.cpu}


def stored(path: str) -> int:
    """Return the bytes of a table's data files."""
    return sum(file.stat().st_size for file in Path(path).glob("*.parquet"))


def shown(runs: list[Found]) -> Table:
    """Return the figures as a table; speeds in thousand keys a second."""
    table = Table(
        "keys", "", "wrong", *STEPS.values(), "filter MB", "exact MB", title="Bloom filters"
    )
    for run in runs:
        sizes = [f"{run[name] / 1e6:,.2f}" for name in ("filter_bytes", "exact_bytes")]
        for unit, named in (("by_clock", "k/s"), ("by_cpu", "k/CPU s")):
            speeds = [f"{run[f'{name}_{unit}'] / 1e3:,.0f}" for name in STEPS]
            table.add_row(
                f"{run['keys']:,.0f}", named, f"{run['false_positives']:.5f}", *speeds, *sizes
            )
    return table


if __name__ == "__main__":
    typer.run(main)
