"""Spark's session in the JVM, and the classes and the Java that it has."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver finds a class, among the jars that the session was given too."""
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def java_version(spark: SparkSession) -> str:
    """Return the version of the Java that Spark runs in."""
    jvm: Any = spark._jvm
    return str(jvm.java.lang.System.getProperty("java.version"))


def jvm_session(spark: SparkSession) -> Any:
    """Return the session that a session of Python stands for."""
    return spark._jsparkSession


def reads_state(spark: SparkSession) -> None:
    """Let a session read state of which it has run no query.

    A store that is loaded from a snapshot tells the coordinator of all stores, which Spark makes
    together with the session's streams.
    """
    jvm_session(spark).streams()


def repartition_state(spark: SparkSession, checkpoint: str, number: int) -> None:
    """Let Spark write the state of a checkpoint anew, in so many partitions, as its next batch.

    One that was begun to the same number is finished. Raises what Spark raises.
    """
    reads_state(spark)
    # The last argument refuses a checkpoint with a batch that is begun and not finished.
    jvm_session(spark).streamingCheckpointManager().repartition(checkpoint, number, True)
