"""Spark's session in the JVM, and the classes and the Java that it has."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_LISTS = "org.apache.spark.api.python.PythonUtils"


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of the JVM by its full name.

    Package by package, Python would ask for each, and the JVM would look in all jars for a class of
    the package's name.
    """
    return _class_of(spark._jvm, name)


@lru_cache(maxsize=1_000)
def _class_of(jvm: Any, name: str) -> Any:
    return getattr(jvm, name)


def java_object(spark: SparkSession, name: str) -> Any:
    """Return an object of Scala by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def find_at_once(spark: SparkSession) -> None:
    """Let PySpark find the class that makes lists of columns without a search of five packages.

    PySpark names the class alone, for each list, and each package is looked for in all jars.
    """
    java_import(spark._jvm, _LISTS)


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver finds a class, among the jars that the session was given too."""
    return bool(java_class(spark, "org.apache.spark.util.Utils").classIsLoadable(name))


def java_version(spark: SparkSession) -> str:
    """Return the version of the Java that Spark runs in."""
    return str(java_class(spark, "java.lang.System").getProperty("java.version"))


def end_jvm(spark: SparkSession) -> None:
    """Stop Spark, and wait until its JVM has ended; this process can start no other."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    # The JVM ends when it can read nothing more.
    gateway.proc.stdin.close()
    gateway.proc.wait()


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
