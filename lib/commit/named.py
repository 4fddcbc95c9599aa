"""Delta tables by their names in a catalog: where they lie, and how they become known."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ..errors import TableError

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_SCHEMA = re.compile(rf"{_WORD}(\.{_WORD})?")
_NAME = re.compile(rf"{_WORD}(\.{_WORD}){{1,2}}")


def is_schema(text: str) -> bool:
    """Return whether a text is `schema` or `catalog.schema`.

    >>> is_schema("shop"), is_schema("main.shop"), is_schema("s3://shop")
    (True, True, False)
    """
    return _SCHEMA.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Return whether a text is `schema.table` or `catalog.schema.table`; all others are paths.

    >>> is_name("shop.pages"), is_name("/data/pages"), is_name("./shop.pages")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def path_of(spark: SparkSession, table: str) -> str:
    """Return where a table lies that is given by its path or by its name.

    Raises:
        TableError: for a name that no Delta table has.
    """
    if not is_name(table):
        return table
    found = location(spark, table)
    if found is None:
        raise TableError(
            f"there is no table {table} in the session's catalogs.",
            "the name of a Delta table, or its path.",
            f"CREATE TABLE {table} USING DELTA LOCATION '/its/path'; a path of one word is written "
            f"./{table}",
        )
    return found


def location(spark: SparkSession, name: str) -> str | None:
    """Return where the Delta table of a name lies; None where nothing has the name.

    Raises:
        TableError: for a view, a table that is not Delta's, and one whose files are gone.
    """
    try:
        (detail,) = spark.sql(f"DESCRIBE DETAIL {name}").select("format", "location").collect()
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            return None
        raise TableError(
            f"{name} cannot be looked up: {str(error).splitlines()[0]}",
            "a name of a Delta table whose files are there.",
            f"DROP TABLE {name} makes the name free; it deletes no file of a table that has a "
            "location.",
        ) from error
    if detail["format"] != "delta":
        raise TableError(f"{name} is a table of {detail['format']}.", "a Delta table.")
    return str(detail["location"])


def make_known(spark: SparkSession, name: str, path: str) -> None:
    """Give the table at a path a name, where it has none yet.

    Raises:
        TableError: where the catalog refuses, as for a schema that is not there.
    """
    quoted = path.replace("\\", "\\\\").replace("'", "\\'")
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{quoted}'")
    except AnalysisException as error:
        raise TableError(
            f"{path} cannot be named {name}: {str(error).splitlines()[0]}",
            "a schema that is there, in a catalog that may name tables at such a path.",
            f"CREATE SCHEMA {name.rpartition('.')[0]}",
        ) from error
