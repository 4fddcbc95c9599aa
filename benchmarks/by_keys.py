"""Batches measured by the number of their keys: warmed up, timed, shown and kept."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console
from rich.table import Table

from .contest import Usage, started

Found = dict[str, float | str | int]
Measure = Callable[[SparkSession, int, Path], list[Found]]
"""Measures so many events, with a folder for what it makes."""

_WHOLE = 10
"""From here on the digits behind the point tell nothing."""


def program(measure: Measure, rows: int, output: Path, *, title: str, what: str) -> None:
    """Measure a tenth of the events and then all; print the second as a table, and keep it."""
    spark = started()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        measure(spark, max(1, rows // 10), Path(folder) / "warm")
        runs = measure(spark, rows, Path(folder) / "measured")
    Console(width=140).print(_shown(runs, title, what))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


def timed(name: str, keys: int, rows: int, asked: DataFrame) -> tuple[Found, Row]:
    """Return how long it takes to find the one row that is asked for, whose first column counts."""
    with Usage() as usage:
        began = time.monotonic()
        (row,) = asked.collect()
        seconds = time.monotonic() - began
    run: Found = {
        "name": name,
        "keys": keys,
        "seconds": seconds,
        "cpu": usage.cpu,
        "peak_mib": usage.mib,
        "found": row[0],
        "thousand_a_second": rows / seconds / 1e3,
    }
    return run, row


def _shown(runs: Sequence[Found], title: str, what: str) -> Table:
    """Return the figures as a table."""
    table = Table("", "keys", "thousand/s", "CPU s", "peak MiB", what, title=title)
    for run in runs:
        numbers = [float(run[name]) for name in ("thousand_a_second", "cpu", "peak_mib")]
        texts = [f"{number:,.0f}" if number >= _WHOLE else f"{number:.2g}" for number in numbers]
        table.add_row(str(run["name"]), f"{run['keys']:,}", *texts, f"{run['found']:,}")
    return table
