"""Measure Bloom filters in a table: speed, size and false positives.

python -m benchmarks.cases.bloom [--keys 1000000]... [--rate 0.01]

Keys are strings with a long common prefix. Queries look up keys that were never added: a million,
or the number of added keys if that is larger. The comparison is exact: dropDuplicates, and a join
with a table of all keys. Speeds are per second and per CPU second of all processes. A tenth of the
keys is processed first as a warm-up."""

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

from benchmarks.support.contestant_process import Usage, bench_session
from tidegate.sketches import BloomTable

SIZES = (10_000, 1_000_000)
MIN_LOOKUPS = 1_000_000
STEPS = {"build": "build", "drop": "dropDuplicates", "probe": "probe", "join": "exact join"}
Measurement = dict[str, float]
Spent = dict[str, float]


def main(
    keys: Annotated[list[int] | None, typer.Option(help="Number of keys; repeatable.")] = None,
    rate: Annotated[float, typer.Option(help="Target false-positive rate.")] = 0.01,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/bloom.json"
    ),
) -> None:
    """Measure, print a table, and write JSON."""
    spark = bench_session()
    runs = []
    for count in keys or SIZES:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            measure(spark, max(1, count // 10), rate, Path(folder) / "warm")
            runs.append(measure(spark, count, rate, Path(folder) / "measured"))
    Console(width=140).print(to_table(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rate": rate, "runs": runs}, indent=2) + "\n", encoding="utf-8")


def measure(spark: SparkSession, count: int, rate: float, folder: Path) -> Measurement:
    """Build and probe a filter of `count` keys, and do the same exactly."""
    known = BloomTable(key="key", expected_items=count, fpp=rate)
    aggregates = max(count, MIN_LOOKUPS)
    inputs = {name: str(folder / name) for name in ("old", "new")}
    texts(spark, 0, count).write.parquet(inputs["old"])
    texts(spark, count, count + aggregates).write.parquet(inputs["new"])
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

    spent["probe"] = ask("new", known.might_contain_rows(new, table))
    spent["join"] = ask(
        "joined", new.join(all_keys.withColumn("known", F.lit(True)), "key", "left")
    )
    ask("old", known.might_contain_rows(old, table))
    if answers["old"] != count or answers["joined"]:
        raise SystemExit(
            f"{answers['old']} of {count} keys found by the filter, "
            f"{answers['joined']} new keys by the join"
        )
    speeds = {
        f"{name}_{unit}": (count if name in ("build", "drop") else aggregates) / value
        for name, figures in spent.items()
        for unit, value in figures.items()
    }
    return {
        "keys": count,
        "lookups": aggregates,
        "false_positives": answers["new"] / aggregates,
        "filter_bytes": stored(blocks),
        "exact_bytes": stored(exact),
        **speeds,
    }


def texts(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Return distinct strings of about 50 characters."""
    return spark.range(start, stop).select(
        F.concat(
            F.lit("https://example.org/shop/orders/2026/"),
            F.lpad(F.col("id").cast("string"), 12, "0"),
        ).alias("key")
    )


def spending(work: Callable[[], None]) -> Spent:
    """Return the seconds and the CPU seconds of a call."""
    with Usage() as usage:
        started_at = time.monotonic()
        work()
        passed = time.monotonic() - started_at
    return {"by_clock": passed, "by_cpu": usage.cpu}


def stored(path: str) -> int:
    """Return the size of the data files of a table."""
    return sum(file.stat().st_size for file in Path(path).glob("*.parquet"))


def to_table(runs: list[Measurement]) -> Table:
    """Return the results as a table; speeds in thousand keys a second."""
    table = Table(
        "keys",
        "",
        "false positives",
        *STEPS.values(),
        "filter MB",
        "exact MB",
        title="Bloom filters",
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
