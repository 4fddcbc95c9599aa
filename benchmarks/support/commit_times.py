"""The latency of the rows of a Delta table, from their input to their commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.support.contestant_process import RunContext

Running = Callable[[SparkSession, RunContext, float], None]
"""Runs a job for a number of seconds."""
Known = Callable[[pd.DataFrame], "pd.Series[int]"]
"""Returns when the input of each row was complete, in milliseconds since 1970."""


@dataclass(frozen=True)
class Live:
    """A contestant that writes to a Delta table.

    columns: the columns that `known` reads.
    rewritten: whether commits rewrite files, so that unchanged rows appear again."""

    run: Running
    columns: tuple[str, ...]
    known: Known
    rewritten: bool = False

    def measure(self, spark: SparkSession, context: RunContext, seconds: float) -> pd.DataFrame:
        """Run for `seconds`; return when each row was `known`, and `at` when it was committed."""
        self.run(spark, context, seconds)
        return self.committed(context.folder / "table")

    def committed(self, table: Path) -> pd.DataFrame:
        """Return each version of each row of a Delta table once."""
        parts = [pd.DataFrame({"known": [], "at": []})]
        seen: set[str] = set()
        for commit in sorted((table / "_delta_log").glob("*.json")):
            at = commit.stat().st_mtime * 1_000
            for line in commit.read_text(encoding="utf-8").splitlines():
                action = json.loads(line)
                if "add" not in action:
                    continue
                file = table / unquote(action["add"]["path"])
                rows = pq.read_table(file, columns=list(self.columns)).to_pandas()
                if self.rewritten:
                    marks = list(map(str, rows.itertuples(index=False)))
                    rows = rows[[mark not in seen for mark in marks]]
                    seen.update(marks)
                parts.append(pd.DataFrame({"known": self.known(rows), "at": at}))
        return pd.concat(parts)
