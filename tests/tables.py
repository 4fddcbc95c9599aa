"""Delta tables read without Spark, also those with deletion vectors; and by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession


class Reader(Protocol):
    """What reads a table's rows, all columns of them unless some are named."""

    def __call__(self, table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]: ...


def is_there(table: Path) -> bool:
    """Return whether a table has a commit; files may lie there before it."""
    return any((table / "_delta_log").glob("*.json"))


def rows(table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a table's rows, all columns of them unless some are named; no table has no rows."""
    if not is_there(table):
        return []
    chosen = ", ".join(f'"{name}"' for name in columns) or "*"
    found = QueryBuilder().register("t", DeltaTable(table)).execute(f"select {chosen} from t")
    read: list[dict[str, Any]] = pa.table(found.read_all()).to_pylist()
    return read


def by_spark(spark: SparkSession) -> Reader:
    """Return what reads as `rows` does, with Spark."""

    def read(table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        if not is_there(table):
            return []
        frame = spark.read.format("delta").load(str(table))
        chosen = frame.select(*columns) if columns else frame
        return [row.asDict(recursive=True) for row in chosen.collect()]

    return read
