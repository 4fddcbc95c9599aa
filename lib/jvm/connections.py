"""The connection that a thread of Python has to the JVM."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession


def close_connection(spark: SparkSession) -> None:
    """Close this thread's connection to the JVM, with the thread of the JVM that serves it.

    For a thread that ends. py4j closes the connection of a thread by itself where Python has called
    the JVM alone. Where the JVM has called Python within such a call, as Delta does an observer of
    transactions, py4j keeps the connection twice and lets go of it once: two sockets and a thread
    would stay for good.
    """
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    connection = client.get_thread_connection()
    if connection is None:
        return
    with suppress(ValueError):
        while True:
            client.deque.remove(connection)
    connection.close()
