"""Read Delta tables by delta-rs, also with deletion vectors, and by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType


class Reader(Protocol):
    """Reads the rows of a table, all columns by default."""

    def __call__(self, table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]: ...


def is_there(table: Path) -> bool:
    """Return whether a table has a commit; files may exist before."""
    return any((table / "_delta_log").glob("*.json"))


def rows(table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of a table, all columns by default; empty if the table does not exist."""
    if not is_there(table):
        return []
    selected = ", ".join(f'"{name}"' for name in columns) or "*"
    result = QueryBuilder().register("t", DeltaTable(table)).execute(f"select {selected} from t")
    table_rows: list[dict[str, Any]] = pa.table(result.read_all()).to_pylist()
    return table_rows


def by_spark(spark: SparkSession) -> Reader:
    """Return a reader that uses Spark; its values have the types of those of `rows`."""

    def read(table: Path, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        if not is_there(table):
            return []
        frame = spark.read.format("delta").load(str(table))
        selected = frame.select(*columns) if columns else frame
        instants = {field.name for field in selected.schema if field.dataType == TimestampType()}
        return [
            {
                name: _as_deltalake(value, is_instant=name in instants)
                for name, value in row.asDict(recursive=True).items()
            }
            for row in selected.collect()
        ]

    return read


def _as_deltalake(value: Any, *, is_instant: bool) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    # Spark returns local times without a zone.
    return value.astimezone(UTC) if is_instant and isinstance(value, datetime) else value
