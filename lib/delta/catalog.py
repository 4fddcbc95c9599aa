"""Names of Delta tables in catalogs."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ..errors import TableError

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_SCHEMA = re.compile(rf"{_WORD}(\.{_WORD})?")
_NAME = re.compile(rf"{_WORD}(\.{_WORD}){{1,2}}")


def is_schema_name(text: str) -> bool:
    """Return whether a text is `schema` or `catalog.schema`.

    >>> is_schema_name("shop"), is_schema_name("main.shop"), is_schema_name("s3://shop")
    (True, True, False)
    """
    return _SCHEMA.fullmatch(text) is not None


def is_table_name(text: str) -> bool:
    """Return whether a text is `schema.table` or `catalog.schema.table`; everything else is a path.

    >>> is_table_name("shop.pages"), is_table_name("/data/pages"), is_table_name("./shop.pages")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def resolve_table_path(spark: SparkSession, table: str) -> str:
    """Return the path of a table, from its path or its catalog name.

    Raises:
        TableError: if no Delta table has the name.
    """
    if not is_table_name(table):
        return table
    path = table_location(spark, table)
    if path is None:
        raise TableError(
            f"table not found: {table} in the catalogs of the session",
            f"name or path of a Delta table; a relative path starts with ./, as ./{table}",
            f"CREATE TABLE {table} USING DELTA LOCATION '/its/path'",
        )
    return path


def table_location(spark: SparkSession, name: str) -> str | None:
    """Return the path of the Delta table with a catalog name, or None if the name is unused.

    Raises:
        TableError: for a view, a table of another format, and a table whose files are missing.
    """
    try:
        (detail,) = spark.sql(f"DESCRIBE DETAIL {name}").select("format", "location").collect()
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            return None
        raise TableError(
            f"invalid table: {name}: {str(error).splitlines()[0]}",
            "the name of a Delta table whose files exist",
            f"DROP TABLE {name} releases the name; files of a table with a location remain",
        ) from error
    if detail["format"] != "delta":
        raise TableError(f"invalid table: {name} has the format {detail['format']}", "delta")
    return str(detail["location"])


def register_table(spark: SparkSession, name: str, path: str) -> None:
    """Register the table at a path under a catalog name, unless the name is used.

    Raises:
        TableError: if the catalog refuses, for example because the schema does not exist.
    """
    quoted = path.replace("\\", "\\\\").replace("'", "\\'")
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{quoted}'")
    except AnalysisException as error:
        raise TableError(
            f"cannot register {path} as {name}: {str(error).splitlines()[0]}",
            "an existing schema in a catalog that permits tables at such a path",
            f"CREATE SCHEMA {name.rpartition('.')[0]}",
        ) from error
