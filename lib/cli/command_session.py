"""The Spark session of a command."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from ..spark.session import set_log_level, spark_session


def command_session(name: str) -> SparkSession:
    """Return the session of a command: only the command itself writes to its standard output.

    Spark logs nothing but fatal errors, because a command prints its own errors. Its JVM prints to
    standard error; Delta's VACUUM prints a line.
    """
    stdout_copy = os.dup(1)
    try:
        os.dup2(2, 1)
        spark = spark_session(f"tidegate {name}")
    finally:
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)
    set_log_level(spark)
    return spark
