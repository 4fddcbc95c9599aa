"""What an error of the JVM says."""

from __future__ import annotations

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from pyspark import SparkContext

LOST_ROWS = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's name for the loss of rows that `localCheckpoint` kept, which cannot be computed anew."""


def message(error: Exception) -> str:
    """Return an error's text.

    `str` of one of Delta's errors raises another, as Spark does not know its class.
    """
    return str(getattr(error, "_desc", None) or error)


def conditions(error: BaseException) -> list[str]:
    """Return the names that Spark gives an error and its causes in the JVM, the outermost first."""
    found: list[str] = []
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    gateway = SparkContext._gateway
    while cause is not None and gateway is not None:
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
            name = cause.getCondition()
            found += [] if name is None else [str(name)]
        cause = cause.getCause()
    return found


def innermost(error: Exception) -> str:
    """Return the first line of what the last cause of an error in the JVM says."""
    found = None
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        found, cause = cause, cause.getCause()
    text = message(error) if found is None else str(found.toString())
    return (text.splitlines() or [""])[0]
