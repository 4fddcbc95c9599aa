"""The only module that reaches into the JVM: Delta's log, Hadoop's file systems, a running query's numbers."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def observed(query: StreamingQuery, name: str) -> dict[str, Any] | None:
    """Give what `observe(name, ...)` counted in the batch that runs now; None before an action has run it."""
    raise NotImplementedError


def read_bytes(spark: SparkSession, path: str) -> bytes | None:
    """Give a file's bytes through the Hadoop file system of its scheme; None where there is no file."""
    raise NotImplementedError
