"""Validation of columns and schemas raises errors of the library at the call."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructType

from tidegate.aggregates import avg
from tidegate.changelogs.change_schema import row_type
from tidegate.columns import as_schema, column_type
from tidegate.errors import ArgumentError, ColumnError
from tidegate.formats import json_format
from tidegate.windows import tumbling


@pytest.fixture
def spark_log() -> Iterator[list[logging.LogRecord]]:
    """The records that PySpark logs about queries that cannot be analyzed."""
    records: list[logging.LogRecord] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Collector()
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def test_a_misspelled_column_raises_without_a_log_record_of_spark(
    spark: SparkSession, spark_log: list[logging.LogRecord]
) -> None:
    clicks = spark.createDataFrame([], "event_time timestamp, page string, ms int")
    with pytest.raises(ColumnError, match=r"no column 'mss'.*\n.*event_time, page, ms"):
        tumbling(clicks, "1 minute", aggs={"n": avg("mss")})
    assert spark_log == []


def test_column_type_resolves_names_with_dots_and_other_case(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "`a.b` int, c string")
    assert column_type(frame, "a.b", "aggs") == IntegerType()
    assert column_type(frame, "C", "aggs") == StringType()
    with pytest.raises(ColumnError):
        column_type(frame, "a", "aggs")


@pytest.mark.parametrize("text", ["page STRIN", "a b c", "page STRING,", ""])
@pytest.mark.parametrize("read", [json_format, lambda text: row_type(text, "id")])
def test_invalid_ddl_text_raises(
    spark: SparkSession, read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ArgumentError, match="DDL text"):
        read(text)


def test_a_schema_without_fields_raises(spark: SparkSession) -> None:
    for schema in ("int", StructType([])):
        with pytest.raises(ArgumentError, match="at least one field"):
            as_schema(schema)


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


def test_ddl_text_requires_a_session_and_a_struct_type_does_not() -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SESSION], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr[-2000:]
    fields, *error_lines = process.stdout.splitlines()
    assert fields == "['page']"
    assert "no Spark session is running" in error_lines[0]
    assert "create the session before" in error_lines[2]
