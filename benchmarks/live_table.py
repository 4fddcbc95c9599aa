"""When each row of a Delta table could be told, and when it was committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from .contest import Place

Running = Callable[[SparkSession, Place, float], None]
"""Runs a job for so many seconds."""
Known = Callable[[pd.DataFrame], "pd.Series[int]"]
"""Returns the moment, in milliseconds since 1970, from which each row could be told."""


@dataclass(frozen=True)
class Live:
    """A contestant: what runs, and from when each row of its table could be told, by its columns.

    rewritten: whether files are written anew, with rows of before that these columns tell."""

    run: Running
    columns: tuple[str, ...]
    known: Known
    rewritten: bool = False

    def told(self, spark: SparkSession, place: Place, seconds: float) -> pd.DataFrame:
        """Run for so many seconds, and return when each row was `known`, and `at` was committed."""
        self.run(spark, place, seconds)
        return self.committed(place.folder / "table")

    def committed(self, table: Path) -> pd.DataFrame:
        """Return each row of a Delta table once for each change."""
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
