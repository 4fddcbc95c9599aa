"""Measure Bloom filters in a table: how fast they are made and asked, how large they are, and how often they are wrong.

python -m benchmarks.bloom [--keys 1000000]... [--rate 0.01]

Keys are texts with a long common prefix. As many keys that were never added are asked for as were added. Beside it,
over the same keys: dropDuplicates, which finds the different ones, and an exact join with a table of all keys, which
answers the same question as the filter. What is measured ran once before, on a tenth of the keys.
"""

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

from lib.runtime.session import quiet, session
from lib.sketches import BloomTable

SIZES = (10_000, 1_000_000)
STEPS = ("build", "drop", "probe", "join")
Found = dict[str, float]


def main(
    keys: Annotated[list[int] | None, typer.Option(help="How many keys; several times for several.")] = None,
    rate: Annotated[float, typer.Option(help="The false-positive rate that is asked for.")] = 0.01,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/results/bloom.json"),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    spark = session("bench", master="local[2]", conf={"spark.driver.memory": "4g", "spark.ui.enabled": "false"})
    quiet(spark)
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
    inputs = {name: str(folder / name) for name in ("old", "new")}
    texts(spark, 0, count).write.parquet(inputs["old"])
    texts(spark, count, 2 * count).write.parquet(inputs["new"])
    old, new = (spark.read.parquet(path) for path in inputs.values())
    blocks, exact = str(folder / "blocks"), str(folder / "exact")

    build = seconds(lambda: known.blocks(old).write.format("delta").save(blocks))
    drop = seconds(lambda: old.dropDuplicates(["key"]).write.format("delta").save(exact))
    table, all_keys = spark.read.format("delta").load(blocks), spark.read.format("delta").load(exact)
    answers: dict[str, int] = {}

    def ask(name: str, frame: DataFrame) -> float:
        return seconds(lambda: answers.__setitem__(name, frame.where("known").count()))

    probe = ask("new", known.probe(new, table))
    join = ask("joined", new.join(all_keys.withColumn("known", F.lit(True)), "key", "left"))
    ask("old", known.probe(old, table))
    if answers["old"] != count or answers["joined"]:
        raise SystemExit(
            f"of {count} keys {answers['old']} were found, and the join found {answers['joined']} new ones"
        )
    return {
        "keys": count,
        "false_positives": answers["new"] / count,
        "build_seconds": build,
        "probe_seconds": probe,
        "drop_seconds": drop,
        "join_seconds": join,
        "filter_bytes": stored(blocks),
        "exact_bytes": stored(exact),
    }


def texts(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Give different texts of some 50 letters."""
    return spark.range(start, stop).select(
        F.concat(F.lit("https://example.org/shop/orders/2026/"), F.lpad(F.col("id").cast("string"), 12, "0")).alias(
            "key"
        )
    )


def seconds(work: Callable[[], None]) -> float:
    """Give how long it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def stored(path: str) -> int:
    """Give the bytes of a table's data files."""
    return sum(file.stat().st_size for file in Path(path).glob("*.parquet"))


def shown(runs: list[Found]) -> Table:
    """Give the figures as a table; speeds in thousand keys a second."""
    table = Table(
        "keys",
        "wrong",
        "build",
        "dropDuplicates",
        "probe",
        "exact join",
        "filter MB",
        "exact MB",
        title="Bloom filters",
    )
    for run in runs:
        speeds = {name: f"{run['keys'] / run[f'{name}_seconds'] / 1e3:,.0f} k/s" for name in STEPS}
        sizes = [f"{run[name] / 1e6:,.2f}" for name in ("filter_bytes", "exact_bytes")]
        table.add_row(f"{run['keys']:,.0f}", f"{run['false_positives']:.5f}", *speeds.values(), *sizes)
    return table


if __name__ == "__main__":
    typer.run(main)
