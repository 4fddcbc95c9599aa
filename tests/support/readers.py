"""Readers of a Delta table that share no code: Spark, delta-rs and DuckDB agree, value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tests.support.delta_tables import is_there
from tests.support.delta_tables import rows as rows_of_delta_rs
from tidegate.jvm import with_settings

Rows = Counter[str]


def assert_readers_agree(spark: SparkSession, table: Path) -> None:
    """Require that Spark, delta-rs and DuckDB read the same values of a table."""
    by_spark = _comparable(_read_by_spark(spark, table))
    _require_equal(table, "Spark", by_spark, "delta-rs", _comparable(rows_of_delta_rs(table)))
    _require_equal(table, "Spark", by_spark, "DuckDB", _comparable(_read_by_duckdb(table)))


def assert_other_readers_agree(table: Path) -> None:
    """Require that delta-rs and DuckDB read the same values of a table; takes milliseconds."""
    by_delta_rs = _comparable(rows_of_delta_rs(table))
    _require_equal(table, "delta-rs", by_delta_rs, "DuckDB", _comparable(_read_by_duckdb(table)))


def _require_equal(table: Path, one: str, by_one: Rows, other: str, by_other: Rows) -> None:
    differing = f"{table}: {other} reads other rows than {one}"
    assert (by_other - by_one, by_one - by_other) == (Counter(), Counter()), differing


def tables_for_all_readers(folder: Path) -> list[Path]:
    """Return the Delta tables below a folder that use no feature which a reader lacks."""
    tables = sorted({log.parent for log in folder.rglob("_delta_log") if is_there(log.parent)})
    return [table for table in tables if not _other_features(table)]


def _other_features(table: Path) -> set[str]:
    """Return the features of a table that delta-rs or DuckDB does not read."""
    try:
        protocol = DeltaTable(table).protocol()
    except DeltaError as error:
        if "empty schema" in str(error):
            return {"no columns"}
        raise
    is_column_mapped = protocol.min_reader_version == 2
    features = {"columnMapping"} if is_column_mapped else set(protocol.reader_features or ())
    return features - {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}


def _read_by_spark(spark: SparkSession, table: Path) -> list[dict[str, Any]]:
    with with_settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        found: list[dict[str, Any]] = (
            spark.read.format("delta").load(str(table)).toArrow().to_pylist()
        )
        return found


def _read_by_duckdb(table: Path) -> list[dict[str, Any]]:
    """Return the rows of the table's files, with the partition values of Delta's log."""
    partition_values = dict(_partition_values(table))
    if not partition_values:
        return []
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        options = "union_by_name = true, hive_partitioning = false, filename = '__file'"
        query = f"select * from read_parquet($files, {options})"
        files = connection.sql(query, params={"files": list(partition_values)})
        found = pa.table(files.to_arrow_table()).to_pylist()
    names = [field.name for field in DeltaTable(table).schema().fields]
    return [
        {name: (row | partition_values[row["__file"]]).get(name) for name in names} for row in found
    ]


def _partition_values(table: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path of each file, and the values of its partition columns."""
    actions = pa.table(DeltaTable(table).get_add_actions(flatten=False)).to_pylist()
    for action in actions:
        yield str(table / unquote(action["path"])), action.get("partition") or {}


def _comparable(rows: list[dict[str, Any]]) -> Rows:
    """Return rows as texts that are equal for equal values only; NaN equals itself."""
    return Counter(repr(sorted((name, _plain(row[name])) for name in row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _plain(value[name])) for name in value]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return repr(value)
