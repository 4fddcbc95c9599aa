"""What a caller gives is checked at the call, in the library's own words."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructType

from tidegate.aggregates import mean
from tidegate.changes.change import row_type
from tidegate.columns import schema_of, type_of
from tidegate.errors import ArgumentError, ColumnError
from tidegate.formats import json_format
from tidegate.windows import tumbling


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What Spark's Python side writes to standard error about a query that cannot be analysed."""
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Kept()
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def test_a_misspelt_column_is_refused_without_a_trace_of_spark(
    spark: SparkSession, logged: list[logging.LogRecord]
) -> None:
    clicks = spark.createDataFrame([], "event_time timestamp, page string, ms int")
    with pytest.raises(ColumnError, match=r"names 'mss'.*\n.*event_time, page, ms"):
        tumbling(clicks, "1 minute", aggs={"n": mean("mss")})
    assert logged == []


def test_a_name_is_found_whatever_its_capitals_and_dots(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "`a.b` int, c string")
    assert type_of(frame, "a.b", "aggs") == IntegerType()
    assert type_of(frame, "C", "aggs") == StringType()
    with pytest.raises(ColumnError):
        type_of(frame, "a", "aggs")


@pytest.mark.parametrize("text", ["page STRIN", "a b c", "page STRING,", ""])
@pytest.mark.parametrize("read", [json_format, lambda text: row_type(text, "id")])
def test_ddl_text_that_is_none_is_the_librarys_error(
    spark: SparkSession, read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ArgumentError, match="DDL text"):
        read(text)


def test_a_schema_of_no_fields_or_that_is_one_type_is_refused(spark: SparkSession) -> None:
    for given in ("int", StructType([])):
        with pytest.raises(ArgumentError, match="at least one field"):
            schema_of(given)


WITHOUT_A_SESSION = """
from pyspark.sql.types import StringType, StructField, StructType
from tidegate.errors import SetupError
from tidegate.formats import json_format

print(json_format(StructType([StructField("page", StringType())])).schema.names)
try:
    json_format("page STRING")
except SetupError as error:
    print(error)
"""


def test_ddl_text_without_a_session_says_so_and_a_struct_type_needs_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SESSION], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    fields, *told = done.stdout.splitlines()
    assert fields == "['page']"
    assert "no Spark session is running" in told[0]
    assert "make the session before" in told[2]
