"""Benchmarks of batches by their number of keys."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.support.contestant_process import Usage, bench_session

Measurement = dict[str, float | str | int]
Measure = Callable[[SparkSession, int, Path], list[Measurement]]
"""Measures a number of events; the folder is for its files."""

_NO_DECIMALS = 10
"""Numbers from here on are shown without decimals."""


def program(measure: Measure, rows: int, output: Path, *, title: str, what: str) -> None:
    """Warm up on a tenth of the events, measure all, print a table and write JSON."""
    spark = bench_session()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        measure(spark, max(1, rows // 10), Path(folder) / "warm")
        runs = measure(spark, rows, Path(folder) / "measured")
    Console(width=140).print(_to_table(runs, title, what))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


def timed(name: str, keys: int, rows: int, query: DataFrame) -> tuple[Measurement, Row]:
    """Run a query of one row, whose first column is a count; return the measurement and the row."""
    with Usage() as usage:
        started_at = time.monotonic()
        (row,) = query.collect()
        seconds = time.monotonic() - started_at
    run: Measurement = {
        "name": name,
        "keys": keys,
        "seconds": seconds,
        "cpu": usage.cpu,
        "peak_mib": usage.mib,
        "count": row[0],
        "thousand_a_second": rows / seconds / 1e3,
    }
    return run, row


def _to_table(runs: Sequence[Measurement], title: str, what: str) -> Table:
    """Return the measurements as a table."""
    table = Table("", "keys", "thousand/s", "CPU s", "peak MiB", what, title=title)
    for run in runs:
        numbers = [float(run[name]) for name in ("thousand_a_second", "cpu", "peak_mib")]
        texts = [
            f"{number:,.0f}" if number >= _NO_DECIMALS else f"{number:.2g}" for number in numbers
        ]
        table.add_row(str(run["name"]), f"{run['keys']:,}", *texts, f"{run['count']:,}")
    return table
