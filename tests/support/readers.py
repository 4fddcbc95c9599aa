"""Readers of a Delta table that share no code: Spark, delta-rs and DuckDB agree, value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
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
from tidegate.jvm import clear_table_cache, with_settings

Rows = Counter[str]
_KNOWN_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""The features of tables that all readers know."""
_DELETION_VECTORS = "deletionVectors"


def assert_readers_agree(spark: SparkSession | None, table: Path) -> None:
    """Require that Spark, delta-rs and DuckDB read the same values of a table.

    DuckDB does not know deletion vectors here. Without a session Spark does not read the table.
    """
    by_delta_rs = _comparable(rows_of_delta_rs(table))
    if spark is not None:
        by_spark = _comparable(_read_by_spark(spark, table))
        _require_equal(table, "Spark", by_spark, "delta-rs", by_delta_rs)
    if _DELETION_VECTORS not in _other_features(table):
        by_duckdb = _comparable(_read_by_duckdb(table))
        _require_equal(table, "delta-rs", by_delta_rs, "DuckDB", by_duckdb)


def assert_readers_agree_below(
    folder: Path, spark: SparkSession | None, *, compares_spark: bool
) -> None:
    """Require that readers agree on each table below a folder that has no other features.

    A table that a test has damaged is skipped if neither delta-rs nor Spark reads it.
    """
    if spark is not None and compares_spark:
        # Spark would read the commits that it has cached, although a test has deleted their files.
        clear_table_cache(spark)
    for table in sorted({log.parent for log in folder.rglob("_delta_log")}):
        if not is_there(table):
            continue
        try:
            if not _other_features(table) - {_DELETION_VECTORS}:
                assert_readers_agree(spark if compares_spark else None, table)
        except Exception as error:
            if isinstance(error, AssertionError) or spark is None or _is_readable(spark, table):
                raise


def _is_readable(spark: SparkSession, table: Path) -> bool:
    """Return whether delta-rs or Spark reads a table."""
    clear_table_cache(spark)
    for read in (rows_of_delta_rs, partial(_read_by_spark, spark)):
        with suppress(Exception):
            read(table)
            return True
    return False


def _require_equal(table: Path, one: str, by_one: Rows, other: str, by_other: Rows) -> None:
    differing = f"{table}: {other} reads other rows than {one}"
    assert (by_other - by_one, by_one - by_other) == (Counter(), Counter()), differing


def _other_features(table: Path) -> set[str]:
    """Return the features of a table that are not known to all readers."""
    try:
        protocol = DeltaTable(table).protocol()
    except DeltaError as error:
        if "empty schema" in str(error):
            return {"no columns"}
        raise
    is_column_mapped = protocol.min_reader_version == 2
    features = {"columnMapping"} if is_column_mapped else set(protocol.reader_features or ())
    return features - _KNOWN_FEATURES


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
